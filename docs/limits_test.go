package docs_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/fleetpace/fleetpace/limits"
	"github.com/fleetpace/fleetpace/reserve"
)

func Example_limits() {
	ctx := context.Background()
	limiter, err := reserve.New(client, reserve.Config{Name: "maps-api", Limit: reserve.PerSecond(50).Burst(5)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer limiter.Close()
	if err := visit(ctx, limiter); err != nil {
		fmt.Println(err)
		return
	}
	limit, err := reserve.ParseLimit("1000/minute burst 200")
	fmt.Println(limit.Rate(), limit.MaxBurst(), err)
	// Output: 16.666666666666668 200 <nil>
}

func Example_limitsLook() {
	ctx, customer, customers := context.Background(), "acme", []string{"acme", "globex"}
	limiter, err := reserve.New(client, reserve.Config{Name: "customers", Limit: reserve.PerHour(10).Burst(10)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer limiter.Close()
	states, err := limiter.States(ctx, customers...) // of many keys, and State of one: both take no permit
	if err != nil {
		fmt.Println(err)
		return
	}
	a, err := limiter.For(customer).Try(ctx) // takes a permit: Granted, or RetryAfter; Left and Reset for headers
	if err != nil {
		fmt.Println(err)
		return
	}
	before, err := limiter.For(customer).State(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = limiter.For(customer).Refill(ctx) // support resets a customer: all permits are available
	if err != nil {
		fmt.Println(err)
		return
	}
	after, err := limiter.For(customer).State(ctx)
	fmt.Println(len(states), states[0].Stored, a.Granted, a.Left, math.Round(before.Stored), after.Stored, err)
	// Output: 2 10 true 9 9 10 <nil>
}

func visit(ctx context.Context, limiter *reserve.Limiter) error {
	if err := limiter.For("host/example.com").Wait(ctx); err != nil {
		return err
	}
	return nil
}

func Example_limitsFile() {
	dir, err := os.MkdirTemp("", "limits")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "limits.yaml")
	err = os.WriteFile(path, []byte(`
limits:
  - name: openai-requests
    limit: 490/minute burst 10
  - name: shop
    key: "{shop}/{token}"
    limit: 2/s burst 30
`), 0o600)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(useFile(path))
	// Output: 2/s burst 30 <nil>
}

func useFile(path string) (reserve.Limit, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	set, err := limits.Load(client, path, reserve.Config{Logger: slog.Default()})
	if err != nil {
		return reserve.Limit{}, err
	}
	go set.Watch(ctx, 10*time.Second)                                                 // or set.Reload() on SIGHUP
	limiter, err := set.For("shop", map[string]string{"shop": "acme", "token": "t1"}) // ask for each call
	if err != nil {
		return reserve.Limit{}, err
	}
	return limiter.Limit(), set.Close()
}

func Example_limitsCheck() {
	dir, err := os.MkdirTemp("", "limits")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	before, err := os.Getwd()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.Chdir(before)
	if err := os.Chdir(dir); err != nil {
		fmt.Println(err)
		return
	}
	err = os.WriteFile("limits.yaml", []byte(`limits:
  - name: openai-requests
    limit: 490 per minute
  - name: shop
    lease: 5m
`), 0o600)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = limits.Check("limits.yaml", reserve.Config{})
	fmt.Println(err) // limits.yaml:3: limits[0].limit: has no slash between permits and period …
	// Output:
	// limits.yaml:3: limits[0].limit: has no slash between permits and period (in "490 per minute"; for example "100/s" or "1000/minute burst 200")
	// limits.yaml:4: limits[1]: has no limit
	// limits.yaml:5: limits[1].lease: must be from 0 to 1m, got 5m0s
}
