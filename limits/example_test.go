package limits_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/embedded"
	"github.com/fleetpace/fleetpace/limits"
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

// fileOf stands for your own file, in the current directory.
func fileOf(text string) (string, func()) {
	before, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "limits")
	if err != nil {
		panic(err)
	}
	if err := os.Chdir(dir); err != nil {
		panic(err)
	}
	if err := os.WriteFile("limits.yaml", []byte(text), 0o600); err != nil {
		panic(err)
	}
	return "limits.yaml", func() { _, _ = os.Chdir(before), os.RemoveAll(dir) }
}

func ExampleLoad() {
	client, stop := startRedis()
	defer stop()
	path, remove := fileOf(`
limits:
  - name: openai-requests
    limit: 500/minute burst 10
    outage: wait
`)
	defer remove()

	set, err := limits.Load(client, path, reserve.Config{Prefix: "shop"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = set.Close() }()

	limiter, err := set.Get("openai-requests")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := limiter.Wait(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("called under", limiter.Limit())
	// Output: called under 500/minute burst 10
}

// Every tenant has a limit of its own.
func ExampleSet_For() {
	client, stop := startRedis()
	defer stop()
	path, remove := fileOf(`
limits:
  - name: shop
    key: "{shop}/{token}"
    limit: 2/hour burst 2
`)
	defer remove()
	set, err := limits.Load(client, path, reserve.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = set.Close() }()

	for _, shop := range []string{"acme", "acme", "acme", "bolt"} {
		limiter, err := set.For("shop", map[string]string{"shop": shop, "token": "t1"})
		if err != nil {
			fmt.Println(err)
			return
		}
		allowed, err := limiter.Allow(context.Background())
		fmt.Println(limiter, allowed, err)
	}
	_, err = set.For("shop", map[string]string{"shop": "acme"})
	fmt.Println(err)
	// Output:
	// shop/acme/t1 true <nil>
	// shop/acme/t1 true <nil>
	// shop/acme/t1 false <nil>
	// shop/bolt/t1 true <nil>
	// limits: invalid values for "shop", where its key is "{shop}/{token}": token is missing
}

// A test of yours that checks the file before it is shipped needs no Redis.
func ExampleCheck() {
	path, remove := fileOf(`limits:
  - name: openai-requests
    limit: 500 per minute
  - name: shop
    limt: 2/s burst 40
    prefetch: 5m
`)
	defer remove()

	fmt.Println(limits.Check(path, reserve.Config{}))
	// Output:
	// limits.yaml:3: limits[0].limit: has no slash between permits and period (in "500 per minute"; for example "100/s" or "1000/minute burst 200")
	// limits.yaml:4: limits[1]: has no limit
	// limits.yaml:5: limits[1]: unknown field "limt": there are name, limit, key, flow, weights, version, plans, kind, group, settles, prefetch, max-waiting, max-pause and outage
	// limits.yaml:6: limits[1].prefetch: must be from 0 to 1m, got 5m0s
}

func ExampleSet_Reload() {
	client, stop := startRedis()
	defer stop()
	path, remove := fileOf("limits: [{name: maps, limit: 10/s}, {name: mail, limit: 5/s}]")
	defer remove()
	set, err := limits.Load(client, path, reserve.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = set.Close() }()

	_ = os.WriteFile(path, []byte("limits: [{name: maps, limit: 20/s}, {name: sms, limit: 1/s}, {name: mail, limit: 5/s}]"), 0o600)
	changes, err := set.Reload()
	fmt.Printf("%+v %v\n", changes, err)

	_ = os.WriteFile(path, []byte("limits: [{name: maps, limit: plenty}]"), 0o600)
	_, err = set.Reload()
	fmt.Println("refused:", err != nil)

	maps, _ := set.Get("maps")
	fmt.Println(maps.Limit())
	// Output:
	// {Added:[sms] Changed:[maps] Removed:[]} <nil>
	// refused: true
	// 20/s
}

// A program that reloads on SIGHUP, and when the file has changed.
func ExampleSet_Watch() {
	client := redis.NewClient(&redis.Options{})
	set, err := limits.Load(client, "/etc/fleet/limits.yaml", reserve.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = set.Close() }()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()

	go func() { _ = set.Watch(ctx, 10*time.Second) }() // it fails for a wrong interval only

	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			if _, err := set.Reload(); err != nil {
				fmt.Println(err)
			}
		}
	}
}

// A call needs a request and some tokens at once, and tells afterwards what it has used.
func ExampleSet_All() {
	client, stop := startRedis()
	defer stop()
	path, remove := fileOf(`
limits:
  - {name: requests, group: llm, limit: 57/minute burst 10}
  - {name: tokens, group: llm, limit: 7500/minute burst 2500, settles: true}
`)
	defer remove()
	set, err := limits.Load(client, path, reserve.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = set.Close() }()

	ctx := context.Background()
	turns, err := set.All(nil, "requests", "tokens")
	if err != nil {
		fmt.Println(err)
		return
	}
	call, err := turns.Reserve(ctx, 1, 600)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := call.Wait(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(turns, call.Settle(ctx, 1, 200))
	// Output: requests + tokens <nil>
}

// The limiters of a file are asked for by their names, for each call or job.
func ExampleSet_Get() {
	client, stop := startRedis()
	defer stop()
	path, remove := fileOf("limits: [{name: maps, limit: 10/s}, {name: shop, key: \"{shop}\", limit: 2/s}]")
	defer remove()
	set, err := limits.Load(client, path, reserve.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = set.Close() }()

	for _, name := range set.Names() {
		limiter, err := set.Get(name)
		fmt.Println(limiter != nil, err)
	}
	_, err = set.Get("mail")
	fmt.Println(errors.Is(err, limits.ErrUnknown))
	// Output:
	// true <nil>
	// false limits: invalid values for "shop", where its key is "{shop}": shop is missing
	// true
}

// A program that takes names from others looks up which values a limit needs.
func ExampleSet_About() {
	client, stop := startRedis()
	defer stop()
	path, remove := fileOf(`
limits:
  - name: shop
    key: "{shop}/{token}"
    flow: "{tenant}"
    limit: 2/s burst 30
`)
	defer remove()
	set, err := limits.Load(client, path, reserve.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = set.Close() }()

	about, err := set.About("shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(about.Name, "is", about.Limit)
	fmt.Println("its key needs", about.KeyNames, "and its flow", about.FlowNames)
	// Output:
	// shop is 2/s burst 30
	// its key needs [shop token] and its flow [tenant]
}

// Calls that wait in any limiter of the Set end with it.
func ExampleSet_Close() {
	client, stop := startRedis()
	defer stop()
	path, remove := fileOf("limits: [{name: maps, limit: 1/hour}]")
	defer remove()
	set, err := limits.Load(client, path, reserve.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter, err := set.Get("maps")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(limiter.Wait(context.Background()))

	ended := make(chan error)
	go func() { ended <- limiter.Wait(context.Background()) }() // for an hour
	_ = set.Close()
	fmt.Println(errors.Is(<-ended, reserve.ErrClosed))
	// Output:
	// <nil>
	// true
}

// An editor or a check of yours shows each mistake in its line.
func ExampleError() {
	path, remove := fileOf(`limits:
  - name: shop
    limit: 2/s
    prefetch: 5m
`)
	defer remove()

	var wrong *limits.Error
	if errors.As(limits.Check(path, reserve.Config{}), &wrong) {
		for _, p := range wrong.Problems {
			fmt.Printf("line %d: %s %s\n", p.Line, p.Path, p.Reason)
		}
	}
	// Output: line 4: limits[0].prefetch must be from 0 to 1m, got 5m0s
}
