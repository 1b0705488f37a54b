package main

import (
	"errors"
	"flag"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/bench/internal/command"
	"github.com/fleetpace/fleetpace/bench/internal/database"
)

const usage = `What a fleet costs on Redis, from a formula with measured constants.

  go run ./plan -rate 5000 -processes 50 -limits 1000 -price 0.05
  go run ./plan -rate 50000 -limits 20 -lease 1s -chart plan.svg
  go run ./plan -calibrate -write my.json     measure the constants on this machine
  go run ./plan -calibration my.json -rate 5000
  go run ./plan -check                        compare the formula with a real cluster
  go run ./plan -growth                       what a turn costs as a fleet grows

A plan's lines:
  common   script calls that ask where nobody waits, of many limits at once
  waiting  those of calls that wait: when they come, and again before their turn
  beat     heartbeats, one per process and name and second
and their columns:
  calls/s           script calls per second
  items each        limits, calls that wait, or processes under the name
  cores in scripts  the share of one core that runs scripts (INFO commandstats)
  cores             the same with parsing, reading and writing: what counts for shards

A name lives on one shard. Shards are as many as are needed so that none is busier
than -load, if names are spread evenly; a warning says when a name is too much for one.

-check starts a cluster of three masters from the redis-server in PATH and lets
processes' worth of limiters work on it, in four scenarios of -seconds each (or the
one that -rate, -processes and so on describe). It prints plan, measured, and
measured / plan.

-growth starts a redis-server and lets fleets of three sizes wait at it, each for 20 s and
then -seconds that are measured: script calls per turn, the share of the possible turns
that is used, and Redis's time per turn, which should not grow with the fleet.

Flags:
`

// options are the command line, checked.
type options struct {
	workload    workload
	own         bool // the workload was described
	terms       terms
	calibrate   bool
	check       bool
	growth      bool
	calibration string // empty: what is built in
	write       string
	redisURL    string        // empty: a redis-server of our own
	seconds     time.Duration // of a scenario
	json        bool
	chart       string
}

// describing are the flags that describe a workload.
var describing = []string{"rate", "processes", "limits", "names", "lease", "fill", "rtt", "waiting"}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	var seconds float64
	fs := command.NewFlags("plan", usage, stderr)
	w := &o.workload
	fs.Float64Var(&w.Rate, "rate", 1000, "calls per second of the fleet, over all limits")
	fs.IntVar(&w.Processes, "processes", 10, "processes that call; each uses all limits")
	fs.IntVar(&w.Limits, "limits", 10, "limits: names, and keys of For")
	fs.IntVar(&w.Names, "names", 1, "names of limiters, over which the limits are spread")
	fs.DurationVar(&w.Lease, "lease", 0, "Config.Lease")
	fs.DurationVar(&w.Fill, "fill", 2*time.Second, "in which the bucket of a limit fills: its burst / its rate")
	fs.DurationVar(&w.RTT, "rtt", 500*time.Microsecond, "a round trip to Redis: what a PING takes")
	fs.IntVar(&w.Waiting, "waiting", 0, "calls that wait in the queue for longer than 0.25 s, over all limits")
	fs.Float64Var(&o.terms.Price, "price", 0, "of a core for an hour, in any currency")
	fs.Float64Var(&o.terms.Load, "load", 0.6, "the share of its core that a shard may be busy")
	fs.BoolVar(&o.calibrate, "calibrate", false, "measure the constants and print them")
	fs.StringVar(&o.write, "write", "", "with -calibrate: write the constants to this `file` as JSON")
	fs.StringVar(&o.calibration, "calibration", "", "plan with the constants in this `file` (default: those built in)")
	fs.StringVar(&o.redisURL, "redis", "", "with -calibrate: use the Redis at this `URL`, such as redis://localhost:6379/9, which nobody else uses meanwhile, instead of an own one; the keys are removed again")
	fs.BoolVar(&o.check, "check", false, "compare plan and measurement on a cluster of three masters")
	fs.BoolVar(&o.growth, "growth", false, "measure what a turn costs as a fleet grows")
	fs.Float64Var(&seconds, "seconds", 20, "with -check and -growth: how long a scenario is measured")
	fs.BoolVar(&o.json, "json", false, "print JSON instead of a table")
	fs.StringVar(&o.chart, "chart", "", "draw the cores against the rate, for some leases, into this `file` (.svg)")
	if err := command.Parse(fs, args); err != nil {
		return o, err
	}
	fs.Visit(func(f *flag.Flag) { o.own = o.own || slices.Contains(describing, f.Name) })
	// Beyond an hour the sum would not be a duration.
	o.seconds = time.Duration(min(max(seconds, 0), 3600) * float64(time.Second))
	return o, errors.Join(w.check(), o.terms.check(), o.checkModes(seconds))
}

func (o *options) checkModes(seconds float64) error {
	modes := 0
	for _, on := range []bool{o.calibrate, o.check, o.growth} {
		if on {
			modes++
		}
	}
	if modes > 1 {
		return errors.New("-calibrate, -check and -growth: want one of them")
	}
	for _, f := range []struct {
		flag, value, mode string
		on                bool
	}{
		{"-write", o.write, "-calibrate", o.calibrate},
		{"-redis", o.redisURL, "-calibrate", o.calibrate},
	} {
		if f.value != "" && !f.on {
			return invalid(f.flag, "%s: only with %s", f.value, f.mode)
		}
	}
	if o.calibrate && o.calibration != "" {
		return invalid("-calibration", "%s: not with -calibrate, which measures; -write names the file to write", o.calibration)
	}
	if o.chart != "" && modes > 0 {
		return invalid("-chart", "%s: not with -calibrate, -check or -growth", o.chart)
	}
	if ext := strings.ToLower(filepath.Ext(o.chart)); o.chart != "" && ext != ".svg" {
		return invalid("-chart", "%q: want a name that ends in .svg", o.chart)
	}
	if err := database.CheckURL(o.redisURL); err != nil {
		return err
	}
	if !(seconds >= 1 && seconds <= 600) {
		return invalid("-seconds", "%g: want 1 to 600", seconds)
	}
	return nil
}
