package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	"go.uber.org/ratelimit"
	"golang.org/x/time/rate"

	"github.com/fleetpace/fleetpace/reserve"
)

const (
	fleetpaceName = "fleetpace"
	leaseName     = "fleetpace-lease"
	contextName   = "fleetpace-ctx"
	pingName      = "ping"
)

// bucket is a limit as all contenders understand it.
type bucket struct {
	name     string // what its keys begin with
	interval time.Duration
	burst    int
}

// plenty is never used up: nobody waits for the limit.
func plenty(name string) bucket {
	return bucket{name: name, interval: time.Microsecond, burst: 1_000_000_000}
}

// contender is one way to ask whether a call may be made.
type contender struct {
	name string

	// sent counts, out of what Redis counts, the commands that the client sent. Nil:
	// the contender asks nobody outside of the process.
	sent func(calls) int64

	// open makes a limiter on a client.
	open func(*redis.Client, bucket) (asker, error)
}

// asker is a limiter at work.
type asker struct {
	// ask returns when the limiter has said yes to one call. The key is that of one
	// limit of many; empty: there is one only.
	ask func(ctx context.Context, key string) error

	// ends: calls have a context that can end. Else they have one that can not, which is
	// what costs least.
	ends bool

	// forgets: there is nothing left of a limit a second after its last call.
	forgets bool

	// cut: calls under way are cut when the time is over, as they may last for as long
	// as there are others, and nothing is left behind when they are.
	cut bool

	close func()
}

// context is that of a call, made of one that can end.
func (a asker) context(ctx context.Context) context.Context {
	if a.ends || a.cut {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

var contenders = []contender{
	{fleetpaceName, scriptCalls, openFleetpace(0)},
	{leaseName, scriptCalls, openFleetpace(time.Second)},
	{contextName, scriptCalls, openWithContext},
	{"redis_rate", scriptCalls, openRedisRate},
	{"throttled", throttledCalls, openThrottled},
	{"guava", scriptCalls, openGuava},
	{pingName, func(c calls) int64 { return c["ping"] }, openPing},
	{"x/time/rate", nil, openXTimeRate},
	{"uber", nil, openUber},
}

func contenderNamed(name string) (contender, bool) {
	for _, c := range contenders {
		if c.name == name {
			return c, true
		}
	}
	return contender{}, false
}

func contenderNames() []string {
	var all []string
	for _, c := range contenders {
		all = append(all, c.name)
	}
	return all
}

func nothing() {}

// openFleetpace is Limiter.Wait.
func openFleetpace(lease time.Duration) func(*redis.Client, bucket) (asker, error) {
	return func(client *redis.Client, b bucket) (asker, error) {
		limiter, err := newLimiter(client, b, lease)
		if err != nil {
			return asker{}, err
		}
		return asker{
			ask: func(ctx context.Context, key string) error {
				if key == "" {
					return limiter.Wait(ctx)
				}
				return limiter.For(key).Wait(ctx)
			},
			close: func() { _ = limiter.Close() },
		}, nil
	}
}

// openWithContext is Limiter.Wait of calls that could be told to leave.
func openWithContext(client *redis.Client, b bucket) (asker, error) {
	a, err := openFleetpace(0)(client, b)
	a.ends = true
	return a, err
}

func newLimiter(client *redis.Client, b bucket, lease time.Duration) (*reserve.Limiter, error) {
	return reserve.New(client, reserve.Config{Name: b.name, Limit: reserve.Every(b.interval).Burst(b.burst), Lease: lease})
}

// openRedisRate is Allow. Its rate is a whole number, so the period carries it.
func openRedisRate(client *redis.Client, b bucket) (asker, error) {
	limiter := redis_rate.NewLimiter(client)
	limit := redis_rate.Limit{Rate: 1, Period: b.interval, Burst: b.burst}
	return asker{close: nothing, forgets: true, ask: func(ctx context.Context, key string) error {
		result, err := limiter.Allow(ctx, b.name+key, limit)
		if err != nil {
			return err
		}
		return yes(result.Allowed > 0)
	}}, nil
}

// openThrottled is RateLimitCtx. The store compares and swaps; throttled gives up
// with an error after 10 swaps that somebody else won. A caller has to ask again
// then, so it is let ask until it knows.
func openThrottled(client *redis.Client, b bucket) (asker, error) {
	store, err := goredisstore.NewCtx(client, b.name)
	if err != nil {
		return asker{}, err
	}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate:  throttled.PerDuration(1, b.interval),
		MaxBurst: b.burst - 1,
	})
	if err != nil {
		return asker{}, err
	}
	limiter.SetMaxCASAttemptsLimit(1_000_000)
	return asker{close: nothing, forgets: true, cut: true, ask: func(ctx context.Context, key string) error {
		limited, _, err := limiter.RateLimitCtx(ctx, "/"+key, 1)
		if err != nil {
			return err
		}
		return yes(!limited)
	}}, nil
}

func openPing(client *redis.Client, _ bucket) (asker, error) {
	return asker{close: nothing, forgets: true, ask: func(ctx context.Context, _ string) error { return client.Ping(ctx).Err() }}, nil
}

func openXTimeRate(_ *redis.Client, b bucket) (asker, error) {
	limiter := rate.NewLimiter(rate.Every(b.interval), b.burst)
	return asker{close: nothing, ask: func(context.Context, string) error { return yes(limiter.Allow()) }}, nil
}

// openUber is Take. It has no burst, so its rate is one that no caller reaches.
func openUber(*redis.Client, bucket) (asker, error) {
	limiter := ratelimit.New(int(time.Second))
	return asker{close: nothing, ask: func(context.Context, string) error {
		limiter.Take()
		return nil
	}}, nil
}

// yes is for limiters that say no instead of waiting. Here permits are available,
// so a no means that the measurement is wrong.
func yes(allowed bool) error {
	if !allowed {
		return fmt.Errorf("the limiter says no, though permits are available")
	}
	return nil
}
