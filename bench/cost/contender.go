package cost

import (
	"context"
	"errors"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"github.com/fleetpace/fleetpace/internal/meter"
	"github.com/fleetpace/fleetpace/reserve"
)

// ask returns when the limiter has said yes to one call. The key is that of one limit of many;
// empty: there is one only.
type ask func(ctx context.Context, key string) error

// asker is a contender in a process.
type asker struct {
	ask    ask
	place  func(ctx context.Context) (leave func(context.Context) error, err error) // for a call that has to wait
	lapses func() int64                                                             // turns that came too late to be used
	end    func()
}

// simple is a contender that has no queue: it makes an ordinary call in place of each that would wait
// or leave.
func simple(one ask, end func()) *asker {
	plain := func(ctx context.Context) error { return one(ctx, "") }
	return &asker{
		ask:    one,
		place:  func(ctx context.Context) (func(context.Context) error, error) { return plain, plain(ctx) },
		lapses: func() int64 { return 0 },
		end:    end,
	}
}

// contender is one way to ask whether a call may be made.
type contender struct {
	name       string
	local      bool // it does not ask Redis
	prefetches bool // it takes turns ahead
	open       func(client *redis.Client, s *setup) (*asker, error)
}

// Each limit is one of 1,000,000 per second with a burst of 1,000,000,000: nobody waits for it.
const (
	interval = time.Microsecond
	burst    = 1_000_000_000
)

// base is what others are compared with. The names of fleetpace from another program are its own with
// before at the end.
const base, before = "redis_rate", ", before"

var contenders = []contender{
	{"fleetpace", false, false, openFleetpace(0)},
	{"fleetpace, prefetch", false, true, openFleetpace(time.Second)},
	{base, false, false, func(client *redis.Client, s *setup) (*asker, error) {
		return simple(askRedisRate(redis_rate.NewLimiter(client), s.Name), func() {}), nil
	}},
	{"redis_rate, full duplex", false, false, openFullDuplex},
	{"floor", false, false, openFloor},
	{"x/time/rate", true, false, func(*redis.Client, *setup) (*asker, error) {
		limiter := rate.NewLimiter(rate.Every(interval), burst)
		return simple(func(context.Context, string) error { return yes(limiter.Allow()) }, func() {}), nil
	}},
}

func openFleetpace(prefetch time.Duration) func(*redis.Client, *setup) (*asker, error) {
	return func(client *redis.Client, s *setup) (*asker, error) {
		config := reserve.Config{Name: s.Name, Limit: reserve.Every(interval).Burst(burst), Prefetch: prefetch}
		if s.Full {
			config.Limit, config.Prefetch = reserve.Every(time.Hour), 0 // whoever asks has to wait
		}
		limiter, err := reserve.New(client, config)
		if err != nil {
			return nil, err
		}
		numbers := meter.Named("", s.Name)
		return &asker{
			ask: func(ctx context.Context, key string) error {
				if key == "" {
					return limiter.Wait(ctx)
				}
				return limiter.For(key).Wait(ctx)
			},
			place: func(ctx context.Context) (func(context.Context) error, error) {
				place, err := limiter.Reserve(ctx)
				if err != nil {
					return nil, err
				}
				return place.Cancel, nil
			},
			lapses: func() int64 { return numbers.Count(meter.Lapsed) },
			end:    func() { _ = limiter.Close() },
		}, nil
	}
}

// askRedisRate is Allow. Its rate is a whole number, so the period carries it.
func askRedisRate(limiter *redis_rate.Limiter, name string) ask {
	limit := redis_rate.Limit{Rate: 1, Period: interval, Burst: burst}
	return func(ctx context.Context, key string) error {
		result, err := limiter.Allow(ctx, name+key, limit)
		if err != nil {
			return err
		}
		return yes(result.Allowed > 0)
	}
}

// openFullDuplex is redis_rate on the pool of go-redis that sends the commands of all callers over
// one connection, one behind the other, without waiting for replies.
func openFullDuplex(client *redis.Client, s *setup) (*asker, error) {
	pool, err := client.AutoPipelineWithOptions(&redis.AutoPipelineOptions{FullDuplex: true})
	if err != nil {
		return nil, err
	}
	return simple(askRedisRate(redis_rate.NewLimiter(pool), s.Name), func() { _ = pool.Close() }), nil
}

// openFloor is what no limiter goes below whose calls share their trips: they go to sleep, one PING
// is sent for all that came, and they are woken.
func openFloor(client *redis.Client, _ *setup) (*asker, error) {
	calls := make(chan chan error, 1<<13)
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		var batch []chan error
		for {
			select {
			case first := <-calls:
				batch = append(batch[:0], first)
			case <-ctx.Done():
				return
			}
			for n := len(calls); n > 0; n-- {
				batch = append(batch, <-calls)
			}
			err := client.Ping(ctx).Err()
			for _, call := range batch {
				call <- err
			}
		}
	}()
	return simple(func(context.Context, string) error {
		call := make(chan error, 1)
		calls <- call
		return <-call
	}, stop), nil
}

// yes is for limiters that say no instead of waiting.
func yes(allowed bool) error {
	if !allowed {
		return errors.New("the limiter says no, though permits are available")
	}
	return nil
}
