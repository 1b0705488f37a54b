package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/bench/internal/command"
	"github.com/fleetpace/fleetpace/bench/internal/database"
)

const usage = `What a call costs while permits are available, so that nobody waits for the limit:
this project beside other limiters, and beside floors.

  go run ./compare                                all usual cases as tables, in less than a minute
  go run ./compare -json                          a JSON line per case and contender
  go run ./compare -case parallel-64 -seconds 30
  go run ./compare -case accuracy -seconds 20
  go run ./compare -case uncontended,parallel-64,parallel-4096 -chart cost.svg

Cases (those in brackets only when -case names them):
  uncontended      one goroutine asks all the time
  parallel-64, parallel-4096, [parallel-8, parallel-512]
                   so many goroutines of one process ask all the time
  many-limits      1,024 goroutines ask for 10,000 limits, at random
  rtt-5ms          2,000 calls/s at random moments, Redis 5 ms away: how long they take
  lease-100k       100,000 calls/s of one process, with and without Config.Lease
  lease-steady     3 limiters of one name share 20,000/s with a burst of 10,000, and
                   get 16,000 calls/s
  lease-bursty     the same calls, for each limiter in 100 ms of each 500
  memory           bytes per limit, per waiting call, per key
  [memory-million] the process's heap while it visits 1,000,000 keys once
  accuracy         8 processes share 1,000/s for -seconds; a strict bucket judges

Contenders:
  fleetpace        reserve.Limiter.Wait
  fleetpace-lease  the same with Config.Lease, in the cases that are about it
  fleetpace-ctx    reserve.Limiter.Wait of calls whose context can end; those of the
                   others can not
  redis_rate       go-redis/redis_rate/v10, Allow
  throttled        throttled/v2 with its go-redis store, RateLimitCtx
  guava            what Guava's SmoothBursty does, as a Lua script of 12 lines
  ping             a bare PING: a floor for all that ask Redis in each call
  x/time/rate      golang.org/x/time/rate, Allow: a floor in the process
  uber             go.uber.org/ratelimit, Take: a floor in the process

Figures are medians over the rounds; in JSON each also has _min and _max:
  ns_per_op              time per call: of all goroutines together where they ask all
                         the time; the median call's own in rtt-5ms and lease-*
  ops_per_second         calls that were answered
  redis_commands_per_op  commands that the client sent, as Redis counts them
  allocs_per_op          heap allocations of the process
  ratio_to_fleetpace     ns_per_op / that of fleetpace in the same case
README.md says how each is measured, and what further fields mean.

Flags:
`

// options are the command line, checked.
type options struct {
	trials   []trial
	redisURL string // empty: a redis-server of our own
	json     bool
	chart    string
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	var caseList, contenderList string
	var seconds float64
	var rounds int
	fs := command.NewFlags("compare", usage, stderr)
	fs.StringVar(&caseList, "case", "", "`names` of cases, separated by commas (default all usual ones)")
	fs.StringVar(&contenderList, "contender", "", "`names` of contenders, separated by commas (default all)")
	fs.Float64Var(&seconds, "seconds", 0, "how long each case is measured, in all its rounds (default 1 to 5, by case)")
	fs.IntVar(&rounds, "rounds", 4, "slices that each contender gets in a case, in turns with the others, after one to warm up; in uncontended 8 times as many")
	fs.StringVar(&o.redisURL, "redis", "", "use the Redis at this `URL`, such as redis://localhost:6379/9, instead of an own one; the database must be empty, is emptied again, and nobody else may use the server meanwhile")
	fs.BoolVar(&o.json, "json", false, "print JSON lines instead of tables")
	fs.StringVar(&o.chart, "chart", "", "draw cost against goroutines to this `file` (.svg or .png); adds parallel-8 and parallel-512 where -case names nothing")
	if err := command.Parse(fs, args); err != nil {
		return o, err
	}
	given := false
	fs.Visit(func(f *flag.Flag) { given = given || f.Name == "seconds" })
	if given && !(seconds >= 0.1 && seconds <= 3600) {
		return o, fmt.Errorf("-seconds %g: want 0.1 to 3600", seconds)
	}
	if rounds < 1 || rounds > 1000 {
		return o, fmt.Errorf("-rounds %d: want 1 to 1000", rounds)
	}
	return o, errors.Join(o.choose(caseList, contenderList, seconds, rounds), o.check())
}

func (o *options) choose(caseList, contenderList string, seconds float64, rounds int) error {
	chosen, err := listed("-case", caseList, caseNames())
	if err != nil {
		return err
	}
	wanted, err := listed("-contender", contenderList, contenderNames())
	if err != nil {
		return err
	}
	for _, c := range cases {
		drawn := o.chart != "" && strings.HasPrefix(c.name, "parallel-")
		if len(chosen) == 0 && !c.usual && !drawn || len(chosen) > 0 && !slices.Contains(chosen, c.name) {
			continue
		}
		t := trial{testcase: c, rounds: rounds}
		t.time = time.Duration(c.seconds * float64(time.Second))
		if seconds > 0 {
			t.time = time.Duration(seconds * float64(time.Second))
		}
		for _, name := range c.contenders {
			if len(wanted) == 0 || slices.Contains(wanted, name) {
				found, _ := contenderNamed(name)
				t.contenders = append(t.contenders, found)
			}
		}
		if len(t.contenders) > 0 {
			o.trials = append(o.trials, t)
		}
	}
	if len(o.trials) == 0 {
		return fmt.Errorf("-contender %q takes part in no case of -case %q, see -h", contenderList, caseList)
	}
	return nil
}

// listed are the names of a flag; nil: it was not set.
func listed(flag, list string, known []string) ([]string, error) {
	if list == "" {
		return nil, nil
	}
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%s %q: want names out of %s", flag, name, strings.Join(known, ", "))
		}
		names = append(names, name)
	}
	return names, nil
}

func (o *options) check() error {
	if err := database.CheckURL(o.redisURL); err != nil {
		return err
	}
	if ext := strings.ToLower(filepath.Ext(o.chart)); o.chart != "" && !slices.Contains([]string{".svg", ".png"}, ext) {
		return fmt.Errorf("-chart %q: want a name that ends in .svg or .png", o.chart)
	}
	return nil
}

// total is how long all cases are measured.
func (o *options) total() time.Duration {
	var sum time.Duration
	for _, t := range o.trials {
		sum += t.time
	}
	return sum
}
