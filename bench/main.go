// Command bench measures fleetpace beside what people use for the same, and draws the figures
// that the README and docs quote.
//
//	go run . cost      what a call costs: one that finds permits available, and one that waits
//	go run . fleet     fleets of asynq processes at a rate-limited API
//	go run . http      turns over HTTP
//	go run . growth    many calls that wait at many keys
//
// Each measurement explains itself with -h. It starts a redis-server (or valkey-server) from PATH on a free
// port, and leaves nothing behind.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/redis/go-redis/v9/logging"

	"github.com/fleetpace/fleetpace/bench/cost"
	"github.com/fleetpace/fleetpace/bench/fleet"
	"github.com/fleetpace/fleetpace/bench/growth"
	"github.com/fleetpace/fleetpace/bench/internal/child"
	"github.com/fleetpace/fleetpace/bench/overhttp"
)

// program is one of the measurements.
type program struct {
	name, does, usage string
	run               func(ctx context.Context, fs *flag.FlagSet, args []string, stdout io.Writer, stderr *os.File) error
}

var programs = []program{
	{"cost", "what a call costs, beside other limiters", cost.Usage, cost.Run},
	{"fleet", "fleets of asynq processes at a rate-limited API, beside what people build", fleet.Usage, fleet.Run},
	{"http", "turns over HTTP, beside a handler that asks redis_rate", overhttp.Usage, overhttp.Run},
	{"growth", "script calls per turn where many calls wait at many keys", growth.Usage, growth.Run},
}

func main() {
	child.Main(child.Roles{
		cost.MemberRole:     cost.Member,
		fleet.MemberRole:    fleet.Member,
		overhttp.ServerRole: overhttp.Server,
	})
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the program that the first argument names, and returns the exit code.
func run(args []string, stdout io.Writer, stderr *os.File) int {
	i := slices.IndexFunc(programs, func(p program) bool { return len(args) > 0 && p.name == args[0] })
	if i < 0 {
		fmt.Fprintln(stderr, "Measures fleetpace beside what people use for the same. Name what to measure:")
		for _, p := range programs {
			fmt.Fprintf(stderr, "  go run . %-7s %s\n", p.name, p.does)
		}
		fmt.Fprintln(stderr, "Each of them takes -h.")
		return 2
	}
	logging.Disable() // errors of the client are returned as well
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second Ctrl-C ends a program that hangs
	p := programs[i]
	fs := flag.NewFlagSet(p.name, flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() { fmt.Fprint(stderr, p.usage); fs.PrintDefaults() }
	err := p.run(ctx, fs, args[1:], stdout, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "interrupted")
		return 130
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v\n", p.name, err)
		return 1
	}
	return 0
}
