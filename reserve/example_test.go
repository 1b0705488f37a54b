package reserve_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/embedded"
	"github.com/fleetpace/fleetpace/reserve"
)

// startRedis stands for your own Redis.
func startRedis() (*redis.Client, func()) {
	server, err := embedded.Start("")
	if err != nil {
		panic(err)
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	return client, func() { _ = client.Close(); server.Close() }
}

// lookUp stands for a request.
func lookUp(_ context.Context, address int) { fmt.Println("looking up address", address) }

func Example() {
	client, stop := startRedis()
	defer stop()

	// Every process of the fleet makes the same limiter.
	limiter, err := reserve.New(client, reserve.Config{
		Name:  "maps-api",
		Limit: reserve.PerSecond(50),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = limiter.Close() }()

	for address := range 3 {
		if err := limiter.Wait(context.Background()); err != nil {
			fmt.Println(err)
			return
		}
		// The deadline of the call begins with its turn: the queue may be longer.
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		lookUp(ctx, address)
		cancel()
	}
	// Output:
	// looking up address 0
	// looking up address 1
	// looking up address 2
}

func ExampleLimiter_For() {
	client, stop := startRedis()
	defer stop()
	limiter, _ := reserve.New(client, reserve.Config{Name: "crawl", Limit: reserve.PerHour(6)})
	defer func() { _ = limiter.Close() }()

	ctx := context.Background()
	for _, host := range []string{"example.com", "example.org", "example.com"} {
		ok, _ := limiter.For(host).Allow(ctx)
		fmt.Println(host, ok)
	}
	// Output:
	// example.com true
	// example.org true
	// example.com false
}

func ExampleLimiter_Wait_deadline() {
	client, stop := startRedis()
	defer stop()
	limiter, _ := reserve.New(client, reserve.Config{Name: "report-api", Limit: reserve.PerHour(1)})
	defer func() { _ = limiter.Close() }()

	_ = limiter.Wait(context.Background()) // the hour's call

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := limiter.Wait(ctx) // returns at once, and costs nothing
	var failed *reserve.Error
	if errors.As(err, &failed) && errors.Is(err, reserve.ErrWouldMissDeadline) {
		fmt.Println("come back in", failed.Wait.Round(time.Minute))
		fmt.Println("there was", failed.Left.Round(time.Minute))
	}
	// Output:
	// come back in 1h0m0s
	// there was 1m0s
}

func ExampleLimiter_Reserve() {
	client, stop := startRedis()
	defer stop()
	limiter, _ := reserve.New(client, reserve.Config{Name: "mail", Limit: reserve.PerMinute(1)})
	defer func() { _ = limiter.Close() }()

	ctx := context.Background()
	for range 3 {
		r, err := limiter.Reserve(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("turn in", r.Delay().Round(time.Minute))
		if r.Delay() > 90*time.Second {
			_ = r.Cancel(ctx) // too long: somebody else may have it
		}
	}
	// Output:
	// turn in 0s
	// turn in 1m0s
	// turn in 2m0s
}

// The API answered 429 with Retry-After: 1800. Nobody of the fleet calls it until then, and
// afterwards the calls come at the pace of the limit, in the order in which they waited.
func ExampleLimiter_Pause() {
	client, stop := startRedis()
	defer stop()
	limiter, _ := reserve.New(client, reserve.Config{Name: "shop-api", Limit: reserve.PerSecond(2), MaxPause: time.Hour})
	defer func() { _ = limiter.Close() }()

	ctx := context.Background()
	response := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1800"}}}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		if err := limiter.Pause(ctx, time.Duration(seconds)*time.Second, "Retry-After: 1800"); err != nil {
			fmt.Println(err)
			return
		}
	}
	state, _ := limiter.State(ctx)
	fmt.Println("paused for", state.Paused.Round(time.Minute), "because of", state.PauseReason)
	r, _ := limiter.Reserve(ctx)
	fmt.Println("the next turn is in", r.Delay().Round(time.Minute))
	// Output:
	// paused for 30m0s because of Retry-After: 1800
	// the next turn is in 30m0s
}

// The provider has halved the quota for an hour. The whole fleet follows at once, also
// processes that start, and those of a version that works with another limit.
func ExampleLimiter_SetLimit() {
	client, stop := startRedis()
	defer stop()
	limiter, _ := reserve.New(client, reserve.Config{Name: "maps", Limit: reserve.PerSecond(50)})
	defer func() { _ = limiter.Close() }()

	ctx := context.Background()
	if err := limiter.SetLimit(ctx, reserve.PerSecond(25), time.Hour); err != nil {
		fmt.Println(err)
		return
	}
	state, _ := limiter.State(ctx)
	fmt.Println(state.Rate, "per second, for", state.SetFor.Round(time.Minute))
	_ = limiter.ResetLimit(ctx)
	state, _ = limiter.State(ctx)
	fmt.Println(state.Rate, "per second")
	// Output:
	// 25 per second, for 1h0m0s
	// 50 per second
}

// One process books calls; others make them, each when its turn has come.
func ExampleJoint_Book() {
	client, stop := startRedis()
	defer stop()
	limiter, _ := reserve.New(client, reserve.Config{Name: "export", Limit: reserve.Every(300 * time.Millisecond)})
	defer func() { _ = limiter.Close() }()
	export, _ := reserve.All(limiter)

	ctx := context.Background()
	for _, joined := range export.Book(ctx, []reserve.Call{{ID: "row-1"}, {ID: "row-2"}}) {
		fmt.Println("booked, error:", joined.Err)
	}

	for _, row := range []string{"row-1", "row-2"} {
		r, err := export.Ask(ctx, row, 5*time.Second)
		if err != nil {
			fmt.Println(err)
			return
		}
		if r.Booked() { // its turn is farther away than the five seconds
			fmt.Println("ask again", reserve.Lead, "before", r.Due())
			continue
		}
		if err := r.Wait(ctx); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("exporting", row)
	}
	// Output:
	// booked, error: <nil>
	// booked, error: <nil>
	// exporting row-1
	// exporting row-2
}

func ExampleLimiter_State() {
	client, stop := startRedis()
	defer stop()
	limiter, _ := reserve.New(client, reserve.Config{Name: "llm", Limit: reserve.PerHour(60).Burst(10)})
	defer func() { _ = limiter.Close() }()

	ctx := context.Background()
	_, _ = limiter.ReserveN(ctx, 7)
	s, err := limiter.State(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.0f of %d permits stored, next call waits %v\n", s.Stored, s.Burst, s.Wait)
	// Output: 3 of 10 permits stored, next call waits 0s
}

func ExampleParseLimit() {
	for _, text := range []string{"100/s", "1000/minute burst 200", "20000/day", "1/0s"} {
		limit, err := reserve.ParseLimit(text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(limit, "is one permit every", limit.Interval())
	}
	// Output:
	// 100/s is one permit every 10ms
	// 1000/minute burst 200 is one permit every 60ms
	// 20000/day is one permit every 4.32s
	// reserve: invalid Limit: period must be a whole number of microseconds above 0, got 0s (in "1/0s"; for example "100/s" or "1000/minute burst 200")
}

func ExampleOutage() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // nothing is there
	defer func() { _ = client.Close() }()
	limiter, _ := reserve.New(client, reserve.Config{
		Name:   "maps-api",
		Limit:  reserve.PerSecond(50),
		Outage: reserve.Outage{Policy: reserve.PolicyFail},
	})
	defer func() { _ = limiter.Close() }()

	err := limiter.Wait(context.Background())
	fmt.Println(errors.Is(err, reserve.ErrUnavailable))
	// Output:
	// true
}
