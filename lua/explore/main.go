package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "explore:", err)
		os.Exit(1)
	}
}

func run() error {
	name := flag.String("world", "", "explore this world; empty: all of them, one after the other")
	depth := flag.Int("depth", 0, "how many actions deep; 0: as deep as the test of the gate")
	deeper := flag.Int("deeper", 0, "this many actions deeper than -depth")
	every := flag.Int("alive", 0, "play on from one of so many states, to see whether it is alive; 0: as the test does")
	limit := flag.Duration("limit", 0, "end after this time; 0: when the depth is complete")
	address := flag.String("redis", "", "replay sampled paths, and the one to a violation, on the Redis at host:port. Its keys begin with explore-replay:")
	samples := flag.Int("samples", 20, "how many paths to replay on that Redis")
	list := flag.Bool("list", false, "list the worlds")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), `Explores small worlds: the scripts of package lua, and every order in which callers, the network, servers
and operators may act. A violation of a law is printed as the shortest way to it, one action per line.

	go run ./lua/explore -list
	go run ./lua/explore -world slots -depth 9
	go run ./lua/explore -world slots -redis localhost:6379

`)
		flag.PrintDefaults()
	}
	flag.Parse()
	var client *redis.Client
	if *address != "" {
		client = redis.NewClient(&redis.Options{Addr: *address})
		defer client.Close()
	}
	if _, ok := worldOf(*name); *name != "" && !ok {
		return fmt.Errorf("there is no world %q: -list names all", *name)
	}
	failed := 0
	for _, c := range worlds {
		if *list {
			fmt.Printf("%-10s %s\n           depth %d in the gate\n", c.Name, c.What, c.Depth)
			continue
		}
		if *name != "" && c.Name != *name {
			continue
		}
		c, _ = worldOf(c.Name)
		if *every > 0 {
			c.Every = *every
		}
		if *depth > 0 {
			c.Depth = *depth
		}
		c.Depth += *deeper
		if err := exploreOne(c, *limit, client, *samples); err != nil {
			fmt.Println(err)
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d worlds have a violation", failed)
	}
	return nil
}

// exploreOne explores a world, and prints the result.
func exploreOne(c Config, limit time.Duration, client *redis.Client, samples int) error {
	x := newExplorer(c, mistake{})
	r := x.explore(c.Depth, samples, limit, func(r Result) {
		fmt.Printf("%-10s depth %2d: %9d states, %9d steps, %9d scripts, %6d played on, %7.1f s\n", c.Name, len(r.ByDepth), r.States, r.Steps, r.Scripts, r.Played, r.Took.Seconds())
	})
	if r.Broken != nil {
		lines, commands := x.transcript(r.Path, r.Alive)
		for _, line := range lines {
			fmt.Println(line)
		}
		if client != nil {
			fmt.Println("on the real Redis:", x.replay(context.Background(), client, "explore-replay:", commands))
		}
		return fmt.Errorf("%s: after %d states, %w", c.Name, r.States, r.Broken)
	}
	for _, path := range r.Samples {
		if client == nil {
			break
		}
		_, commands := x.transcript(path, true)
		if err := x.replay(context.Background(), client, "explore-replay:", commands); err != nil {
			return err
		}
	}
	return nil
}
