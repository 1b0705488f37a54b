package reserve_test

import (
	"context"
	"fmt"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// Two tenants wait for the same limit. One pays for three quarters of it.
func ExampleLimiter_Weight() {
	limiter, stop := newLimiter("account", reserve.PerHour(1))
	defer stop()
	ctx := context.Background()
	_ = limiter.Wait(ctx) // the permit of this hour: all that come now have to wait

	free, paying := limiter.Flow("free"), limiter.Flow("paying").Weight(3)
	for range 4 {
		_, _ = free.Reserve(ctx)
	}
	for range 3 { // they come later, and pass most of the others
		r, err := paying.Reserve(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("the turn is in", r.Delay().Round(time.Hour))
	}
	// Output:
	// the turn is in 2h0m0s
	// the turn is in 3h0m0s
	// the turn is in 4h0m0s
}

// A person waits for this call, and jobs of the night can wait a little longer.
func ExampleLimiter_Urgent() {
	limiter, stop := newLimiter("account", reserve.PerHour(1))
	defer stop()
	ctx := context.Background()
	_ = limiter.Wait(ctx) // the permit of this hour: all that come now have to wait
	for range 5 {
		_, _ = limiter.Reserve(ctx)
	}
	normal, _ := limiter.Reserve(ctx)
	urgent, err := limiter.Urgent().Reserve(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("others:", normal.Delay().Round(time.Hour))
	fmt.Println("urgent:", urgent.Delay().Round(time.Hour))
	// Output:
	// others: 6h0m0s
	// urgent: 1h0m0s
}

// Tenants share an account under two limits. A Joint names the flow at both of them.
func ExampleJoint_Flow() {
	client, stop := startRedis()
	defer stop()
	limits, end := group(client, "api", map[string]reserve.Limit{
		"second": reserve.PerSecond(50).Burst(5),
		"hour":   reserve.PerHour(1_000).Burst(100),
	})
	defer end()
	call, err := reserve.All(limits["second"], limits["hour"])
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	fmt.Println("acme:", call.Flow("acme").Wait(ctx))
	fmt.Println("zenith, which pays more:", call.Flow("zenith").Weight(3).Wait(ctx))
	// Output:
	// acme: <nil>
	// zenith, which pays more: <nil>
}

// Each tenant has a share of both limits by its weight.
func ExampleJoint_Weight() {
	client, stop := startRedis()
	defer stop()
	limits, end := group(client, "api", map[string]reserve.Limit{
		"minute": reserve.PerMinute(600).Burst(10),
		"hour":   reserve.PerHour(1),
	})
	defer end()
	call, _ := reserve.All(limits["minute"], limits["hour"])
	ctx := context.Background()
	_ = call.Wait(ctx) // the permit of this hour: all that come now have to wait

	for range 4 {
		_, _ = call.Flow("free").Reserve(ctx)
	}
	for range 3 {
		r, err := call.Flow("paying").Weight(3).Reserve(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("the turn is in", r.Delay().Round(time.Hour))
	}
	// Output:
	// the turn is in 2h0m0s
	// the turn is in 3h0m0s
	// the turn is in 4h0m0s
}

func ExampleJoint_Urgent() {
	client, stop := startRedis()
	defer stop()
	limits, end := group(client, "api", map[string]reserve.Limit{
		"minute": reserve.PerMinute(600).Burst(10),
		"hour":   reserve.PerHour(1),
	})
	defer end()
	call, _ := reserve.All(limits["minute"], limits["hour"])
	ctx := context.Background()
	_ = call.Wait(ctx) // the permit of this hour: all that come now have to wait
	for range 5 {
		_, _ = call.Reserve(ctx)
	}
	r, err := call.Urgent().Reserve(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the turn is in", r.Delay().Round(time.Hour))
	// Output: the turn is in 1h0m0s
}
