package cost

import (
	"context"
	"errors"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"github.com/fleetpace/fleetpace/reserve"
)

// ask returns when the limiter has said yes to one call. The key is that of one limit of many;
// empty: there is one only.
type ask func(ctx context.Context, key string) error

// contender is one way to ask whether a call may be made.
type contender struct {
	name  string
	local bool // it does not ask Redis
	open  func(client *redis.Client, name string) (ask, func(), error)
}

// Each limit is one of 1,000,000 per second with a burst of 1,000,000,000: nobody waits for it.
const (
	interval = time.Microsecond
	burst    = 1_000_000_000
)

// base is what others are compared with.
const base = "redis_rate"

var contenders = []contender{
	{"fleetpace", false, openFleetpace(0)},
	{"fleetpace, lease", false, openFleetpace(time.Second)},
	{base, false, func(client *redis.Client, name string) (ask, func(), error) {
		return askRedisRate(redis_rate.NewLimiter(client), name), func() {}, nil
	}},
	{"redis_rate, full duplex", false, openFullDuplex},
	{"floor", false, openFloor},
	{"x/time/rate", true, func(*redis.Client, string) (ask, func(), error) {
		limiter := rate.NewLimiter(rate.Every(interval), burst)
		return func(context.Context, string) error { return yes(limiter.Allow()) }, func() {}, nil
	}},
}

func contenderNamed(name string) (c contender, ok bool) {
	for _, c = range contenders {
		if c.name == name {
			return c, true
		}
	}
	return contender{}, false
}

func openFleetpace(lease time.Duration) func(*redis.Client, string) (ask, func(), error) {
	return func(client *redis.Client, name string) (ask, func(), error) {
		limiter, err := reserve.New(client, reserve.Config{Name: name, Limit: reserve.Every(interval).Burst(burst), Lease: lease})
		if err != nil {
			return nil, nil, err
		}
		wait := func(ctx context.Context, key string) error {
			if key == "" {
				return limiter.Wait(ctx)
			}
			return limiter.For(key).Wait(ctx)
		}
		return wait, func() { _ = limiter.Close() }, nil
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
func openFullDuplex(client *redis.Client, name string) (ask, func(), error) {
	pool, err := client.AutoPipelineWithOptions(&redis.AutoPipelineOptions{FullDuplex: true})
	if err != nil {
		return nil, nil, err
	}
	return askRedisRate(redis_rate.NewLimiter(pool), name), func() { _ = pool.Close() }, nil
}

// openFloor is what no limiter goes below whose calls share their trips: they go to sleep, one PING
// is sent for all that came, and they are woken.
func openFloor(client *redis.Client, _ string) (ask, func(), error) {
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
	return func(context.Context, string) error {
		call := make(chan error, 1)
		calls <- call
		return <-call
	}, stop, nil
}

// yes is for limiters that say no instead of waiting.
func yes(allowed bool) error {
	if !allowed {
		return errors.New("the limiter says no, though permits are available")
	}
	return nil
}
