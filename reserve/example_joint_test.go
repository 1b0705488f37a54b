package reserve_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// An API counts requests and tokens: a call waits for both, and takes both or none.
func ExampleAll() {
	client, stop := startRedis()
	defer stop()
	requests, err := reserve.New(client, reserve.Config{Name: "requests", Group: "llm", Limit: reserve.PerHour(500).Burst(10)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = requests.Close() }()
	tokens, err := reserve.New(client, reserve.Config{Name: "tokens", Group: "llm", Limit: reserve.PerDay(100_000).Burst(8_000)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = tokens.Close() }()

	both, err := reserve.All(requests, tokens)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := both.Wait(context.Background(), 1, 1_200); err != nil { // one request, 1,200 tokens
		fmt.Println(err)
		return
	}
	state, _ := tokens.State(context.Background())
	fmt.Printf("called under %v, %.0f hundred tokens are left\n", both, state.Stored/100)
	// Output: called under requests + tokens, 68 hundred tokens are left
}

// group makes limiters that one call may need together. Yours check the error.
func group(client redis.UniversalClient, name string, limits map[string]reserve.Limit) (map[string]*reserve.Limiter, func()) {
	made := make(map[string]*reserve.Limiter)
	for what, limit := range limits {
		l, err := reserve.New(client, reserve.Config{Name: what, Group: name, Limit: limit})
		if err != nil {
			panic(err)
		}
		made[what] = l
	}
	return made, func() {
		for _, l := range made {
			_ = l.Close()
		}
	}
}

// Tenants share an account, and each has a limit of its own. One with a backlog waits under
// its own limit and takes nothing from the account meanwhile.
func ExampleJoint() {
	client, stop := startRedis()
	defer stop()
	limits, end := group(client, "api", map[string]reserve.Limit{
		"account": reserve.PerHour(100).Burst(50),
		"tenant":  reserve.PerHour(10).Burst(2),
	})
	defer end()

	for _, tenant := range []string{"acme", "acme", "acme", "bolt"} {
		call, err := reserve.All(limits["account"], limits["tenant"].For(tenant))
		if err != nil {
			fmt.Println(err)
			return
		}
		allowed, err := call.Allow(context.Background())
		fmt.Println(call, allowed, err)
	}
	// Output:
	// account + tenant/acme true <nil>
	// account + tenant/acme true <nil>
	// account + tenant/acme false <nil>
	// account + tenant/bolt true <nil>
}

// A turn that would come after the deadline is not taken; the error says which limit holds
// the call back, and for how long.
func ExampleJoint_Wait() {
	client, stop := startRedis()
	defer stop()
	limits, end := group(client, "api", map[string]reserve.Limit{
		"second": reserve.PerSecond(50).Burst(5),
		"hour":   reserve.PerHour(1),
	})
	defer end()
	call, _ := reserve.All(limits["second"], limits["hour"])

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	fmt.Println(call.Wait(ctx))
	err := call.Wait(ctx)
	var failed *reserve.Error
	if errors.As(err, &failed) && errors.Is(err, reserve.ErrWouldMissDeadline) {
		fmt.Println("held back by", failed.HeldBy)
		fmt.Println("come back in", failed.Wait.Round(time.Minute))
	}
	// Output:
	// <nil>
	// held back by hour
	// come back in 1h0m0s
}

// A call that some limit does not allow takes nothing from the others.
func ExampleJoint_Allow() {
	client, stop := startRedis()
	defer stop()
	limits, end := group(client, "llm", map[string]reserve.Limit{
		"requests": reserve.PerHour(2).Burst(2),
		"tokens":   reserve.PerHour(1_000).Burst(1_000),
	})
	defer end()
	call, _ := reserve.All(limits["requests"], limits["tokens"])

	for _, tokens := range []int{900, 900, 90, 1} {
		allowed, err := call.Allow(context.Background(), 1, tokens)
		fmt.Println(tokens, "tokens:", allowed, err)
	}
	// Output:
	// 900 tokens: true <nil>
	// 900 tokens: false <nil>
	// 90 tokens: true <nil>
	// 1 tokens: false <nil>
}

func ExampleJoint_Reserve() {
	client, stop := startRedis()
	defer stop()
	limits, end := group(client, "mail", map[string]reserve.Limit{
		"minute": reserve.Rolling(2, time.Minute),
		"day":    reserve.PerDay(1_000).Burst(100),
	})
	defer end()
	send, _ := reserve.All(limits["minute"], limits["day"])

	ctx := context.Background()
	for range 3 {
		r, err := send.Reserve(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		wait := time.Until(r.Due()).Round(time.Minute)
		if wait > 30*time.Second {
			fmt.Println("not now, in", wait)
			_ = r.Cancel(ctx) // what it has goes back
			continue
		}
		if err := r.Wait(ctx); err == nil {
			fmt.Println("send now")
		}
	}
	// Output:
	// send now
	// send now
	// not now, in 1m0s
}

func ExampleJoint_String() {
	client, stop := startRedis()
	defer stop()
	limits, end := group(client, "api", map[string]reserve.Limit{"all": reserve.PerSecond(9), "shop": reserve.PerSecond(2)})
	defer end()
	call, _ := reserve.All(limits["all"], limits["shop"].For("acme"))
	fmt.Println(call)
	// Output: all + shop/acme
}

// What a call costs is known when it was made. Estimate, and settle: what it used less
// serves those that come after it.
func ExampleReservation_Settle() {
	client, stop := startRedis()
	defer stop()
	requests, _ := reserve.New(client, reserve.Config{Name: "requests", Group: "llm", Limit: reserve.PerMinute(600).Burst(10)})
	defer func() { _ = requests.Close() }()
	tokens, _ := reserve.New(client, reserve.Config{Name: "tokens", Group: "llm", Limit: reserve.Quota(10_000, reserve.CalendarMonth), Settles: true})
	defer func() { _ = tokens.Close() }()
	model, _ := reserve.All(requests, tokens)

	ctx := context.Background()
	r, err := model.Reserve(ctx, 1, 8_000) // the prompt and what the answer may have at the most
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := r.Wait(ctx); err != nil {
		fmt.Println(err)
		return
	}
	allowed, _ := model.Allow(ctx, 1, 5_000)
	fmt.Println("5,000 more, while 8,000 are held:", allowed)

	if err := r.Settle(ctx, -1, 1_750); err != nil { // the request was one; the answer says how many tokens it used
		fmt.Println(err)
		return
	}
	allowed, _ = model.Allow(ctx, 1, 5_000)
	fmt.Println("5,000 more, as 1,750 were used:", allowed)
	// Output:
	// 5,000 more, while 8,000 are held: false
	// 5,000 more, as 1,750 were used: true
}

func ExampleReservation_HeldBy() {
	client, stop := startRedis()
	defer stop()
	limits, end := group(client, "api", map[string]reserve.Limit{
		"second": reserve.PerSecond(10).Burst(10),
		"hour":   reserve.Rolling(1, time.Hour),
	})
	defer end()
	call, _ := reserve.All(limits["second"], limits["hour"])

	ctx := context.Background()
	for range 2 {
		r, err := call.Reserve(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		if holder := r.HeldBy(); holder != nil {
			fmt.Println("held back by", holder)
		} else {
			fmt.Println("nothing holds it back")
		}
	}
	// Output:
	// nothing holds it back
	// held back by hour
}

// A reservation keeps its places while nobody waits for it. Wait sleeps until the turn, and
// uses it up.
func ExampleReservation_Wait() {
	client, stop := startRedis()
	defer stop()
	limits, end := group(client, "api", map[string]reserve.Limit{
		"day":   reserve.Quota(1_000, reserve.CalendarDay),
		"month": reserve.Quota(20_000, reserve.CalendarMonth),
	})
	defer end()
	call, _ := reserve.All(limits["day"], limits["month"])

	ctx := context.Background()
	r, err := call.Reserve(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := r.Wait(ctx); err == nil {
		fmt.Println("call now")
	}
	fmt.Println("again:", errors.Is(r.Wait(ctx), reserve.ErrInvalid))
	// Output:
	// call now
	// again: true
}

func ExampleReservation_Due() {
	client, stop := startRedis()
	defer stop()
	limits, end := group(client, "api", map[string]reserve.Limit{"hour": reserve.PerHour(1)})
	defer end()
	call, _ := reserve.All(limits["hour"])

	ctx := context.Background()
	_ = call.Wait(ctx)
	r, err := call.Reserve(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the turn is in", time.Until(r.Due()).Round(time.Minute))
	// Output: the turn is in 1h0m0s
}

func ExampleReservation_Cancel() {
	client, stop := startRedis()
	defer stop()
	limits, end := group(client, "api", map[string]reserve.Limit{"month": reserve.Quota(1, reserve.CalendarMonth)})
	defer end()
	call, _ := reserve.All(limits["month"])

	ctx := context.Background()
	r, err := call.Reserve(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	before, _ := call.Allow(ctx)
	fmt.Println(r.Cancel(ctx))
	after, _ := call.Allow(ctx)
	fmt.Println(before, after)
	// Output:
	// <nil>
	// false true
}

// Limits that one call needs together are made with the same group: their keys are in one
// slot of a cluster then.
func ExampleConfig_group() {
	client, stop := startRedis()
	defer stop()
	config := reserve.Config{Name: "requests", Limit: reserve.PerMinute(500)}
	alone, _ := reserve.New(client, config)
	defer func() { _ = alone.Close() }()
	config.Group = "llm"
	requests, _ := reserve.New(client, config)
	defer func() { _ = requests.Close() }()
	config.Name, config.Limit = "tokens", reserve.PerMinute(90_000).Burst(10_000)
	tokens, _ := reserve.New(client, config)
	defer func() { _ = tokens.Close() }()

	_, err := reserve.All(alone, tokens)
	fmt.Println(err)
	_, err = reserve.All(requests, tokens)
	fmt.Println(err)
	fmt.Println(lua.Keys(reserve.DefaultPrefix, "llm", "tokens", "p", "")[0])
	// Output:
	// reserve: all "requests + tokens": invalid limits: must have the same Config.Group, which is not empty: "tokens" has "llm", and "requests" ""
	// <nil>
	// fleetpace:{llm}/tokens:p
}

// Two permits for each month of the calendar.
func ExampleQuota() {
	client, stop := startRedis()
	defer stop()
	limiter, err := reserve.New(client, reserve.Config{Name: "reports", Limit: reserve.Quota(2, reserve.CalendarMonth)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = limiter.Close() }()

	for range 3 {
		fmt.Println(limiter.Allow(context.Background()))
	}
	// Output:
	// true <nil>
	// true <nil>
	// false <nil>
}

// Never more than three permits in an hour, whenever that begins.
func ExampleRolling() {
	client, stop := startRedis()
	defer stop()
	limiter, err := reserve.New(client, reserve.Config{Name: "export", Limit: reserve.Rolling(3, time.Hour)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = limiter.Close() }()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println(limiter.WaitN(ctx, 3))
	var failed *reserve.Error
	if errors.As(limiter.Wait(ctx), &failed) {
		fmt.Println("the next one is in", failed.Wait.Round(time.Minute))
	}
	// Output:
	// <nil>
	// the next one is in 1h0m0s
}

// A service that was idle is called slowly first: its rate is one call per hour, and the
// second one comes nearly three hours after the first.
func ExampleLimit_WarmUp() {
	client, stop := startRedis()
	defer stop()
	limiter, err := reserve.New(client, reserve.Config{Name: "render", Limit: reserve.PerHour(1).WarmUp(10 * time.Hour)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = limiter.Close() }()

	for range 2 {
		r, err := limiter.Reserve(context.Background())
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("the turn is in", r.Delay().Round(time.Minute))
	}
	// Output:
	// the turn is in 0s
	// the turn is in 2h48m0s
}

// Two calls at a time, over all processes: each holds its slot until it is done.
func ExampleConcurrent() {
	client, stop := startRedis()
	defer stop()
	limiter, err := reserve.New(client, reserve.Config{Name: "render", Limit: reserve.Concurrent(2)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = limiter.Close() }()

	ctx := context.Background()
	for range 3 {
		held, err := limiter.Acquire(ctx, 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		func() {
			defer held.Release()
			state, _ := limiter.State(ctx)
			fmt.Println(len(state.Holders), "call at work,", state.Stored, "slot free")
		}()
	}
	// Output:
	// 1 call at work, 1 slot free
	// 1 call at work, 1 slot free
	// 1 call at work, 1 slot free
}

// The day of this quota begins at midnight in New York.
func ExampleLimit_In() {
	client, stop := startRedis()
	defer stop()
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		fmt.Println(err)
		return
	}
	limits, end := group(client, "api", map[string]reserve.Limit{"day": reserve.Quota(1, reserve.CalendarDay).In(zone)})
	defer end()
	call, _ := reserve.All(limits["day"])

	_ = call.Wait(context.Background())
	r, err := call.Reserve(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the next one is at", r.Due().In(zone).Round(time.Minute).Format(time.TimeOnly))
	// Output: the next one is at 00:00:00
}

// The API's clock may be some seconds off: this quota is not used within five minutes of
// midnight.
func ExampleLimit_Margin() {
	client, stop := startRedis()
	defer stop()
	limits, end := group(client, "api", map[string]reserve.Limit{
		"month": reserve.Quota(1, reserve.CalendarMonth).Margin(5 * time.Minute),
		"hour":  reserve.Rolling(1, time.Hour).Margin(5 * time.Minute),
	})
	defer end()
	ctx := context.Background()
	for _, name := range []string{"month", "hour"} {
		call, _ := reserve.All(limits[name])
		_, _ = call.Reserve(ctx)
		r, err := call.Reserve(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		if name == "month" {
			fmt.Println("the next one of the month is at", r.Due().UTC().Round(time.Minute).Format(time.TimeOnly))
		} else {
			fmt.Println("the next one of the hour is in", time.Until(r.Due()).Round(time.Minute))
		}
	}
	// Output:
	// the next one of the month is at 00:05:00
	// the next one of the hour is in 1h5m0s
}

func ExampleLimit_Kind() {
	for _, limit := range []reserve.Limit{
		reserve.PerSecond(50),
		reserve.PerSecond(50).WarmUp(time.Minute),
		reserve.Quota(2_000, reserve.CalendarDay),
		reserve.Rolling(100, time.Minute),
		reserve.Concurrent(5),
	} {
		fmt.Println(limit, "is", limit.Kind())
	}
	// Output:
	// 50/s is paced
	// 50/s warmup 1m0s is warming up
	// 2000/day quota is quota
	// 100/minute rolling is rolling
	// 5 at once is slots
}

func ExampleKind() {
	limit := reserve.Quota(2_000, reserve.CalendarDay)
	if limit.Kind() == reserve.KindQuota {
		fmt.Println("it may be used up for today")
	}
	// Output: it may be used up for today
}

func ExampleCalendar() {
	for _, each := range []reserve.Calendar{
		reserve.CalendarMinute, reserve.CalendarHour, reserve.CalendarDay, reserve.CalendarWeek, reserve.CalendarMonth,
	} {
		fmt.Println(reserve.Quota(1_000, each))
	}
	// Output:
	// 1000/minute quota
	// 1000/hour quota
	// 1000/day quota
	// 1000/week quota
	// 1000/month quota
}

func ExampleParseLimit_kinds() {
	for _, text := range []string{
		"20/s warmup 10s",
		"2000/day quota in America/Los_Angeles",
		"100000/month quota margin 1s",
		"100/10s rolling margin 50ms",
		"100/10s quota",
		"100/minute rolling burst 5",
	} {
		limit, err := reserve.ParseLimit(text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Printf("%v: %v, %d at once\n", limit, limit.Kind(), limit.MaxBurst())
	}
	// Output:
	// 20/s warmup 10s: warming up, 1 at once
	// 2000/day quota in America/Los_Angeles: quota, 2000 at once
	// 100000/month quota margin 1s: quota, 100000 at once
	// 100/10s rolling margin 50ms: rolling, 100 at once
	// reserve: invalid Limit: window of a quota must be minute, hour, day, week or month, got "10s" (in "100/10s quota"; for example "100/s" or "1000/minute burst 200")
	// reserve: invalid Limit: must read <permits>/<period> or <permits>/<period> burst <permits>; a rolling limit has no "burst" (in "100/minute rolling burst 5"; for example "100/s" or "1000/minute burst 200")
}

// apis are the recipes of docs/limits.md, line by line, in
// its order, with the errors that it leaves out. Calls that take long there do not here.
var apis = []func(ctx context.Context, limit, estimated func(name string, limit reserve.Limit) *reserve.Limiter) error{
	func(ctx context.Context, limit, estimated func(string, reserve.Limit) *reserve.Limiter) error {
		promptTokens, maxTokens := 800, 400
		openai, err := reserve.All(limit("requests", reserve.PerMinute(490).Burst(10)),
			limit("tokens", reserve.PerMinute(180_000).Burst(20_000)), limit("day", reserve.Rolling(10_000, 24*time.Hour)))
		if err != nil {
			return err
		}
		err = openai.Wait(ctx, 1, max(promptTokens, maxTokens), 1)
		return err
	},
	func(ctx context.Context, limit, estimated func(string, reserve.Limit) *reserve.Limiter) error {
		promptTokens, usage := 800, struct{ Input, Output int }{790, 210}
		claude, err := reserve.All(limit("requests", reserve.PerMinute(50).Burst(5)),
			estimated("input", reserve.PerMinute(30_000).Burst(20_000)), estimated("output", reserve.PerMinute(8_000).Burst(6_000)))
		if err != nil {
			return err
		}
		call, err := claude.Reserve(ctx, 1, promptTokens, 1_500) // an estimate
		if err != nil {
			return err
		}
		err = call.Wait(ctx)
		if err != nil {
			return err
		}
		err = call.Settle(ctx, -1, usage.Input, usage.Output) // as its response says
		return err
	},
	func(ctx context.Context, limit, estimated func(string, reserve.Limit) *reserve.Limiter) error {
		github, err := reserve.All(limit("hour", reserve.Rolling(5_000, time.Hour)),
			limit("points", reserve.Rolling(900, time.Minute).Margin(time.Second)), limit("at once", reserve.Concurrent(100)))
		if err != nil {
			return err
		}
		call, err := github.Acquire(ctx, 1, 5, 1) // one request, of 5 points
		if err != nil {
			return err
		}
		defer call.Release()
		return nil
	},
	func(ctx context.Context, limit, estimated func(string, reserve.Limit) *reserve.Limiter) error {
		shop, retryAfter := "acme", time.Millisecond
		shopify := limit("rest", reserve.PerSecond(2).Burst(30)) // the other 10 are for jitter
		err := shopify.For(shop).Wait(ctx)
		if err != nil {
			return err
		}
		err = shopify.For(shop).Pause(ctx, retryAfter, "Retry-After") // if it still answers 429
		return err
	},
	func(ctx context.Context, limit, estimated func(string, reserve.Limit) *reserve.Limiter) error {
		shop, requestedCost, actualCost, currentlyAvailable, onTheWay := "acme", 800, 52, 1_200.0, 85.0
		points := estimated("graphql", reserve.PerSecond(100).Burst(1_900)).For(shop)
		call, err := points.ReserveN(ctx, requestedCost)
		if err != nil {
			return err
		}
		err = call.Wait(ctx)
		if err != nil {
			return err
		}
		err = call.Settle(ctx, actualCost)
		if err != nil {
			return err
		}
		err = points.Told(ctx, max(0, currentlyAvailable-onTheWay)) // less the costs of calls on their way, which Shopify does not know yet
		if err != nil {
			return err
		}
		err = points.PauseKeeping(ctx, 500*time.Millisecond, "the shop is busy") // it does not empty the bucket
		return err
	},
	func(ctx context.Context, limit, estimated func(string, reserve.Limit) *reserve.Limiter) error {
		account, endpoint := limit("account", reserve.PerSecond(90).Burst(10)), limit("endpoint", reserve.PerSecond(20).Burst(5))
		stripe, err := reserve.All(account, endpoint.For("GET /v1/charges"))
		if err != nil {
			return err
		}
		err = stripe.Wait(ctx)
		return err
	},
	func(ctx context.Context, limit, estimated func(string, reserve.Limit) *reserve.Limiter) error {
		pacific, err := time.LoadLocation("America/Los_Angeles")
		if err != nil {
			return err
		}
		maps, err := reserve.All(limit("minute", reserve.PerMinute(2_900).Burst(100)),
			limit("day", reserve.Quota(50_000, reserve.CalendarDay).In(pacific).Margin(2*time.Second)))
		if err != nil {
			return err
		}
		err = maps.Wait(ctx)
		return err
	},
	func(ctx context.Context, limit, estimated func(string, reserve.Limit) *reserve.Limiter) error {
		user := "jane"
		search := limit("recent search", reserve.Rolling(300, 15*time.Minute).Margin(2*time.Second))
		err := search.For(user).Wait(ctx)
		return err
	},
	func(ctx context.Context, limit, estimated func(string, reserve.Limit) *reserve.Limiter) error {
		retryAfter := time.Millisecond
		site := limit("sites", reserve.Every(10*time.Second)).For("example.org")
		err := site.Wait(ctx)
		if err != nil {
			return err
		}
		err = site.Pause(ctx, retryAfter, "Retry-After") // if it answers 429 or 503
		return err
	},
	func(ctx context.Context, limit, estimated func(string, reserve.Limit) *reserve.Limiter) error {
		gateway := limit("gateway", reserve.PerSecond(200).WarmUp(30*time.Second))
		err := gateway.Wait(ctx)
		return err
	},
}

// The recipes for known APIs are valid, and their calls are made.
func TestWhichLimitDoIHave(t *testing.T) {
	client, stop := startRedis()
	defer stop()
	for i, api := range apis {
		limits := func(settles bool) func(string, reserve.Limit) *reserve.Limiter {
			return func(name string, limit reserve.Limit) *reserve.Limiter {
				l, err := reserve.New(client, reserve.Config{Name: name, Group: fmt.Sprint("api-", i), Limit: limit, Settles: settles})
				require.NoError(t, err)
				t.Cleanup(func() { _ = l.Close() })
				return l
			}
		}
		err := api(t.Context(), limits(false), limits(true))
		require.NoError(t, err, "block %d", i+1)
	}
}
