package reserve_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// New checks its settings, and asks nothing of Redis.
func ExampleNew() {
	client, stop := startRedis()
	defer stop()
	limiter, err := reserve.New(client, reserve.Config{Name: "maps-api", Limit: reserve.PerSecond(50).Burst(5)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = limiter.Close() }()
	fmt.Println(limiter, "has", limiter.Limit())

	_, err = reserve.New(client, reserve.Config{Name: "maps-api"})
	fmt.Println(err)
	// Output:
	// maps-api has 50/s burst 5
	// reserve: invalid Limit: is not set: use for example reserve.PerSecond(10)
}

func ExampleLimiter_Wait() {
	limiter, stop := newLimiter("maps", reserve.PerSecond(50))
	defer stop()
	for range 3 {
		if err := limiter.Wait(context.Background()); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("call the API")
	}
	// Output:
	// call the API
	// call the API
	// call the API
}

// The process ends: its calls that wait give their places back.
func ExampleLimiter_Close() {
	limiter, stop := newLimiter("maps", reserve.PerHour(1))
	defer stop()
	ctx := context.Background()
	_ = limiter.Wait(ctx) // the permit of this hour

	waits := make(chan error)
	go func() { waits <- limiter.Wait(ctx) }()
	_ = limiter.Close()
	fmt.Println(errors.Is(<-waits, reserve.ErrClosed))
	// Output: true
}

// The API says until when it does not want calls.
func ExampleLimiter_PauseUntil() {
	limiter, stop := newLimiter("maps", reserve.PerSecond(50))
	defer stop()
	ctx := context.Background()
	reset := time.Now().Add(20 * time.Minute) // as in X-RateLimit-Reset
	if err := limiter.PauseUntil(ctx, reset, "X-RateLimit-Reset"); err != nil {
		fmt.Println(err)
		return
	}
	r, _ := limiter.Reserve(ctx)
	fmt.Println("the next turn is in", r.Delay().Round(time.Minute))
	// Output: the next turn is in 20m0s
}

// The limit was set for an hour, and is reset before.
func ExampleLimiter_ResetLimit() {
	limiter, stop := newLimiter("maps", reserve.PerSecond(50))
	defer stop()
	ctx := context.Background()
	_ = limiter.SetLimit(ctx, reserve.PerSecond(5), time.Hour)
	before, _ := limiter.State(ctx)
	if err := limiter.ResetLimit(ctx); err != nil {
		fmt.Println(err)
		return
	}
	after, _ := limiter.State(ctx)
	fmt.Println(before.Limit, before.Set)
	fmt.Println(after.Limit, after.Set)
	// Output:
	// 5/s true
	// 50/s false
}

// A call that is done lets the next one have its slot.
func ExampleReservation_Release() {
	limiter, stop := newLimiter("reports", reserve.Concurrent(1))
	defer stop()
	ctx := context.Background()
	for call := range 2 {
		held, err := limiter.Acquire(ctx, 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("call", call, "has the slot")
		held.Release()
	}
	// Output:
	// call 0 has the slot
	// call 1 has the slot
}

// A long call stops when others may have its slot, as its process stood still for too long.
func ExampleReservation_Lost() {
	limiter, stop := newLimiter("reports", reserve.Concurrent(1))
	defer stop()
	held, err := limiter.Acquire(context.Background(), 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer held.Release()

	report := make(chan string)
	go func() { report <- "the report is done" }()
	select {
	case text := <-report:
		fmt.Println(text)
	case <-held.Lost():
		fmt.Println("stop: another call may have the slot")
	}
	// Output: the report is done
}

// A call whose turn is far away need not wait in this process: it is booked under its ID.
func ExampleJoint_Ask() {
	limiter, stop := newLimiter("export", reserve.PerHour(1))
	defer stop()
	export, _ := reserve.All(limiter)
	ctx := context.Background()
	for _, row := range []string{"row-1", "row-2"} {
		r, err := export.Ask(ctx, row, 10*time.Second)
		if err != nil {
			fmt.Println(err)
			return
		}
		if r.Booked() {
			fmt.Println(row, "asks again in", (r.Delay() - reserve.Lead).Round(time.Hour))
			continue
		}
		if err := r.Wait(ctx); err == nil {
			fmt.Println(row, "is exported now")
		}
	}
	// Output:
	// row-1 is exported now
	// row-2 asks again in 1h0m0s
}

// A server took a place for a caller that does not answer any more. If the caller comes back,
// it has its place.
func ExampleReservation_PutBackUnsure() {
	limiter, stop := newLimiter("export", reserve.PerHour(1))
	defer stop()
	export, _ := reserve.All(limiter)
	ctx := context.Background()
	_ = export.Wait(ctx) // the permit of this hour

	r, err := export.Ask(ctx, "caller-7", 2*time.Hour)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("kept, error:", r.PutBackUnsure(ctx))
	again, _ := export.Ask(ctx, "caller-7", 2*time.Hour)
	fmt.Println("it is back, with a turn in", again.Delay().Round(time.Hour))
	// Output:
	// kept, error: <nil>
	// it is back, with a turn in 1h0m0s
}

// The status page of the API says when it will be back, and it is back earlier.
func ExampleJoint_Resume() {
	client, stop := startRedis()
	defer stop()
	limits, end := group(client, "llm", map[string]reserve.Limit{
		"requests": reserve.PerSecond(50),
		"tokens":   reserve.PerSecond(500).Burst(500),
	})
	defer end()
	api, _ := reserve.All(limits["requests"], limits["tokens"])

	ctx := context.Background()
	_ = api.PauseUntil(ctx, time.Now().Add(time.Hour), "maintenance")
	allowed, _ := api.Allow(ctx, 1, 200)
	fmt.Println("in the pause:", allowed)
	fmt.Println("resumed, error:", api.Resume(ctx))
	fmt.Println("called, error:", api.Wait(ctx, 1, 200))
	// Output:
	// in the pause: false
	// resumed, error: <nil>
	// called, error: <nil>
}

func ExampleJoint_PauseUntil() {
	client, stop := startRedis()
	defer stop()
	limits, end := group(client, "llm", map[string]reserve.Limit{
		"requests": reserve.PerSecond(50),
		"tokens":   reserve.PerSecond(500).Burst(500),
	})
	defer end()
	api, _ := reserve.All(limits["requests"], limits["tokens"])

	ctx := context.Background()
	if err := api.PauseUntil(ctx, time.Now().Add(time.Hour), "maintenance"); err != nil {
		fmt.Println(err)
		return
	}
	r, _ := api.Reserve(ctx, 1, 200)
	fmt.Println("the next turn is in", r.Delay().Round(time.Minute))
	// Output: the next turn is in 1h0m0s
}

// How all limits of a call stand, at one moment.
func ExampleJoint_States() {
	client, stop := startRedis()
	defer stop()
	limits, end := group(client, "llm", map[string]reserve.Limit{
		"requests": reserve.PerDay(60).Burst(10),
		"tokens":   reserve.PerDay(6_000).Burst(1_000),
	})
	defer end()
	model, _ := reserve.All(limits["requests"], limits["tokens"])

	ctx := context.Background()
	_ = model.Wait(ctx, 1, 700)
	states, err := model.States(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, limit := range model.Limits() {
		fmt.Printf("%v: about %.0f%% stored\n", limit, 100*states[i].Stored/float64(states[i].Burst))
	}
	// Output:
	// requests: about 90% stored
	// tokens: about 30% stored
}

// callUnder waits for a turn under one limit or several, whatever it is given.
func callUnder(ctx context.Context, turns reserve.Turns) error {
	all, err := reserve.All(turns.Limits()...)
	if err != nil {
		return err
	}
	return all.Wait(ctx)
}

func ExampleTurns() {
	client, stop := startRedis()
	defer stop()
	limits, end := group(client, "api", map[string]reserve.Limit{
		"second": reserve.PerSecond(50).Burst(5),
		"day":    reserve.PerDay(10_000).Burst(100),
	})
	defer end()
	both, _ := reserve.All(limits["second"], limits["day"])

	for _, turns := range []reserve.Turns{limits["second"], both} {
		fmt.Println(turns, callUnder(context.Background(), turns))
	}
	// Output:
	// second <nil>
	// second + day <nil>
}
