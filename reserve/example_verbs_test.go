package reserve_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// newLimiter is what the examples use, on a Redis of their own.
func newLimiter(name string, limit reserve.Limit) (limiter *reserve.Limiter, stop func()) {
	client, end := startRedis()
	limiter, err := reserve.New(client, reserve.Config{Name: name, Limit: limit})
	if err != nil {
		panic(err)
	}
	return limiter, func() { _ = limiter.Close(); end() }
}

func ExamplePerSecond() {
	for _, limit := range []reserve.Limit{
		reserve.PerSecond(50), reserve.PerSecond(0.2), reserve.PerMinute(90).Burst(10), reserve.PerHour(60), reserve.PerDay(20_000), reserve.Every(10 * time.Second),
	} {
		fmt.Println(limit, "is a permit every", limit.Interval(), "and at most", limit.MaxBurst(), "at once")
	}
	// Output:
	// 50/s is a permit every 20ms and at most 1 at once
	// 0.2/s is a permit every 5s and at most 1 at once
	// 90/minute burst 10 is a permit every 666.666667ms and at most 10 at once
	// 60/hour is a permit every 1m0s and at most 1 at once
	// 20000/day is a permit every 4.32s and at most 1 at once
	// 1/10s is a permit every 10s and at most 1 at once
}

func ExampleLimit_Validate() {
	fmt.Println(reserve.PerSecond(-1).Validate())
	fmt.Println(errors.Is(reserve.PerSecond(10).Burst(0).Validate(), reserve.ErrInvalid))
	// Output:
	// reserve: invalid Limit: rate must be a number above 0, got -1
	// true
}

func ExampleLimit_UnmarshalText() {
	var config struct{ Limit reserve.Limit }
	err := json.Unmarshal([]byte(`{"limit": "1000/minute burst 200"}`), &config)
	fmt.Println(config.Limit.Rate(), err)
	text, err := json.Marshal(config)
	fmt.Println(string(text), err)
	// Output:
	// 16.666666666666668 <nil>
	// {"Limit":"1000/minute burst 200"} <nil>
}

func ExampleLimit_Window() {
	day := reserve.Quota(2_000, reserve.CalendarDay)
	begin, end := day.Window(time.Date(2026, 5, 17, 14, 30, 0, 0, time.UTC))
	fmt.Println(begin, "until", end)
	// Output: 2026-05-17 00:00:00 +0000 UTC until 2026-05-18 00:00:00 +0000 UTC
}

func ExampleLimiter_Allow() {
	limiter, stop := newLimiter("search", reserve.PerMinute(1))
	defer stop()
	ctx := context.Background()
	for range 2 {
		ok, err := limiter.Allow(ctx)
		fmt.Println(ok, err)
	}
	// Output:
	// true <nil>
	// false <nil>
}

func ExampleLimiter_AllowN() {
	limiter, stop := newLimiter("search", reserve.PerMinute(1).Burst(10))
	defer stop()
	fmt.Println(limiter.AllowN(context.Background(), 10))
	fmt.Println(limiter.AllowN(context.Background(), 1))
	// Output:
	// true <nil>
	// false <nil>
}

// A call that costs 20 permits: 20 tokens, say, or a batch of 20 records.
func ExampleLimiter_WaitN() {
	limiter, stop := newLimiter("tokens", reserve.PerSecond(100).Burst(20))
	defer stop()
	fmt.Println(limiter.WaitN(context.Background(), 20))
	fmt.Println(errors.Is(limiter.WaitN(context.Background(), 21), reserve.ErrExceedsBurst))
	// Output:
	// <nil>
	// true
}

func ExampleLimiter_ReserveN() {
	limiter, stop := newLimiter("tokens", reserve.PerHour(60).Burst(60))
	defer stop()
	ctx := context.Background()
	for range 2 {
		r, err := limiter.ReserveN(ctx, 60)
		fmt.Println(r.Delay().Round(10*time.Minute), err)
	}
	// Output:
	// 0s <nil>
	// 1h0m0s <nil>
}

// At most two calls at a time, in the whole fleet.
func ExampleLimiter_Acquire() {
	limiter, stop := newLimiter("reports", reserve.Concurrent(2))
	defer stop()
	ctx := context.Background()
	for range 3 {
		slot, err := limiter.Acquire(ctx, 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		state, _ := limiter.State(ctx)
		fmt.Println("held:", len(state.Holders))
		slot.Release() // when the call is done
	}
	// Output:
	// held: 1
	// held: 1
	// held: 1
}

// The slots of a call that hangs are taken away, for others to have them.
func ExampleLimiter_Free() {
	limiter, stop := newLimiter("reports", reserve.Concurrent(1))
	defer stop()
	ctx := context.Background()
	_, _ = limiter.Acquire(ctx, 1)
	state, _ := limiter.State(ctx)
	fmt.Println(limiter.Free(ctx, state.Holders[0]))
	other, err := limiter.Acquire(ctx, 1)
	fmt.Println(other != nil, err)
	// Output:
	// true <nil>
	// true <nil>
}

// Each tenant that waits has its share of the limit, by its weight.
func ExampleLimiter_Flow() {
	limiter, stop := newLimiter("account", reserve.PerSecond(50).Burst(5))
	defer stop()
	ctx := context.Background()
	for _, tenant := range []string{"acme", "zenith"} {
		fmt.Println(tenant, limiter.Flow(tenant).Wait(ctx))
	}
	fmt.Println("a customer who pays more", limiter.Flow("globex").Weight(3).Wait(ctx))
	fmt.Println("somebody waits for it", limiter.Flow("acme").Urgent().Wait(ctx))
	// Output:
	// acme <nil>
	// zenith <nil>
	// a customer who pays more <nil>
	// somebody waits for it <nil>
}

func ExampleLimiter_Resume() {
	limiter, stop := newLimiter("maps", reserve.PerSecond(50))
	defer stop()
	ctx := context.Background()
	_ = limiter.PauseUntil(ctx, time.Now().Add(10*time.Minute), "maintenance")
	state, _ := limiter.State(ctx)
	fmt.Println(state.Paused.Round(time.Minute), state.PauseReason)
	_ = limiter.Resume(ctx) // it is over earlier
	state, _ = limiter.State(ctx)
	fmt.Println(state.Paused)
	// Output:
	// 10m0s maintenance
	// 0s
}

// A process takes permits ahead of its calls: most of them need no trip to Redis.
func ExampleLimiter_PrefetchStats() {
	client, stop := startRedis()
	defer stop()
	limiter, err := reserve.New(client, reserve.Config{Name: "fast", Limit: reserve.PerSecond(1000).Burst(500), Prefetch: 100})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = limiter.Close() }()
	for range 50 {
		_ = limiter.Wait(context.Background())
	}
	fmt.Println(limiter.PrefetchStats().Taken > 0)
	// Output: true
}

func ExampleParsePolicy() {
	policy, err := reserve.ParsePolicy("wait")
	fmt.Println(policy, err)
	_, err = reserve.ParsePolicy("hope")
	fmt.Println(err)
	// Output:
	// wait <nil>
	// reserve: invalid policy: must be local, wait, fail or open, got "hope"
}

// A call that needs a slot and permits of a rate holds no slot while it waits for the rate.
func ExampleJoint_Acquire() {
	client, stop := startRedis()
	defer stop()
	rate, _ := reserve.New(client, reserve.Config{Name: "rate", Group: "api", Limit: reserve.PerSecond(50)})
	slots, _ := reserve.New(client, reserve.Config{Name: "at-once", Group: "api", Limit: reserve.Concurrent(10)})
	defer func() { _, _ = rate.Close(), slots.Close() }()
	api, err := reserve.All(rate, slots)
	if err != nil {
		fmt.Println(err)
		return
	}
	call, err := api.Acquire(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer call.Release()
	fmt.Println(api.Limits()[1].Limit())
	// Output: 10 at once
}

func ExampleJoint_Pause() {
	client, stop := startRedis()
	defer stop()
	requests, _ := reserve.New(client, reserve.Config{Name: "requests", Group: "api", Limit: reserve.PerSecond(50)})
	tokens, _ := reserve.New(client, reserve.Config{Name: "tokens", Group: "api", Limit: reserve.PerSecond(500).Burst(500)})
	defer func() { _, _ = requests.Close(), tokens.Close() }()
	api, _ := reserve.All(requests, tokens)
	ctx := context.Background()
	_ = api.Pause(ctx, 5*time.Minute, "their status page is red")
	states, err := api.States(ctx)
	for _, state := range states {
		fmt.Println(state.PauseReason, err)
	}
	_ = api.Resume(ctx)
	// Output:
	// their status page is red <nil>
	// their status page is red <nil>
}

// A task that will not run gives up its place.
func ExampleJoint_CancelBooking() {
	limiter, stop := newLimiter("export", reserve.PerHour(1))
	defer stop()
	export, _ := reserve.All(limiter)
	ctx := context.Background()
	export.Book(ctx, []reserve.Call{{ID: "row-1"}, {ID: "row-2"}, {ID: "row-3"}})
	state, _ := limiter.State(ctx)
	fmt.Println(state.Booked, "booked")
	fmt.Println(export.CancelBooking(ctx, "row-2"))
	state, _ = limiter.State(ctx)
	fmt.Println(state.Booked, "booked")
	// Output:
	// 3 booked
	// <nil>
	// 2 booked
}

// A worker asks for the turn of a task. Where that is far away, the task goes back, and keeps
// its place under its ID.
func ExampleReservation_PutBack() {
	limiter, stop := newLimiter("export", reserve.PerHour(1))
	defer stop()
	export, _ := reserve.All(limiter)
	ctx := context.Background()
	for _, row := range []string{"row-1", "row-2"} {
		r, err := export.Ask(ctx, row, time.Second)
		switch {
		case err != nil:
			fmt.Println(err)
		case r.Booked():
			fmt.Println(r.ID(), "comes again in", r.Delay().Round(time.Hour))
		default:
			fmt.Println(r.ID(), "goes on:", r.Wait(ctx))
		}
	}
	r, _ := export.Ask(ctx, "row-3", 10*time.Hour)
	fmt.Println(r.ID(), "could wait here, and goes back all the same:", r.PutBack(ctx))
	// Output:
	// row-1 goes on: <nil>
	// row-2 comes again in 1h0m0s
	// row-3 could wait here, and goes back all the same: <nil>
}
