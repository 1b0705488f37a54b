// Package fleet lets a fleet of processes call a rate-limited API, paced by fleetpace and by what
// people build for that, and measures how much of the limit each uses, and how many calls are refused.
package fleet

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/bench/internal/child"
	"github.com/fleetpace/fleetpace/bench/internal/redisserver"
	"github.com/fleetpace/fleetpace/internal/progress"
)

// Usage explains the measurement and introduces its flags.
const Usage = `The same work, the same limit, the same time: a fleet of processes works through tasks that each
call a strict API, paced by each contender in turn, on an empty Redis.

Scenarios:
  one    2,000 tasks, one API that takes 100 calls/s with a burst of 10
  mixed  every fifth task calls an API of 5/s (burst 2), the others one of 100/s (burst 10);
         all are in one queue

Contenders:
  fleetpace-worker  package worker gives turns
  asynq-recipe      asynq's wiki: a task that redis_rate does not allow goes back for 0 to 9 s
  window-requeue    fixed windows, as Hatchet counts: a task goes back until the next window
  sleep-in-handler  redis_rate: the handler sleeps as long as it says, and asks again
  bullmq            BullMQ's worker with its limiter (Node, from npm), in scenario one

All limiters get the API's rate and half of its burst; the other half is for the jitter of the way.
Each handler makes one HTTP call and works 5 ms. A call that the API refuses (429) fails its task, or
puts it back. The window begins with the first call, and ends after -seconds or the last task. "used"
is the calls that the API accepted / the most that it could have accepted.

Flags:
`

type options struct {
	scenario, contender, chart string
	seconds                    time.Duration
	tasks, processes, handlers int
	json                       bool
}

// scenario is the work: tasks that each call the API of their line.
type scenario struct {
	name   string
	limits []limit
	lines  []string // a limit for each task
}

// scenarioOf is the work that the options name.
func scenarioOf(o options) (scenario, error) {
	s := scenario{name: o.scenario, lines: make([]string, o.tasks)}
	switch o.scenario {
	case "one":
		s.limits = []limit{{"fast", 100, 10}}
	case "mixed":
		s.limits = []limit{{"fast", 100, 10}, {"slow", 5, 2}}
	default:
		return s, fmt.Errorf("there is no scenario %q: want one or mixed", o.scenario)
	}
	for i := range s.lines {
		s.lines[i] = "fast"
		if i%5 == 4 {
			s.lines[i] = s.limits[len(s.limits)-1].Name
		}
	}
	return s, nil
}

// Run lets one contender after the other work, and prints what each came to.
func Run(ctx context.Context, fs *flag.FlagSet, args []string, stdout io.Writer, stderr *os.File) error {
	var o options
	fs.StringVar(&o.scenario, "scenario", "one", "one or mixed")
	fs.StringVar(&o.contender, "contender", "", "contenders, with commas between; empty: all")
	fs.StringVar(&o.chart, "chart", "", "draw the calls of each contender to an SVG file like this, with its name at the end")
	fs.DurationVar(&o.seconds, "seconds", 10*time.Second, "length of the window")
	fs.IntVar(&o.tasks, "tasks", 2_000, "tasks in the backlog")
	fs.IntVar(&o.processes, "processes", 4, "processes")
	fs.IntVar(&o.handlers, "handlers", 25, "handlers that work at once in each of them")
	fs.BoolVar(&o.json, "json", false, "a line of JSON per contender and limit")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if o.seconds < time.Second || min(o.processes, o.handlers, o.tasks) < 1 || fs.NArg() > 0 {
		return errors.New("want -seconds of 1s or more, at least one of -tasks, -processes and -handlers, and flags only")
	}
	s, err := scenarioOf(o)
	if err != nil {
		return err
	}
	some, err := chosen(o.contender, s)
	if err != nil {
		return err
	}
	var all []Figure
	for _, c := range some {
		if c.ready != nil {
			if err := c.ready(ctx); errors.Is(err, errNoNode) && o.contender == "" {
				fmt.Fprintln(stderr, err, "and is left out")
				continue
			} else if err != nil {
				return err
			}
		}
		r, err := measure(ctx, c, o, s, stderr)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		all = append(all, r.figures()...)
		if err := r.draw(o.chart); err != nil {
			return err
		}
	}
	return print(stdout, all, o.json)
}

// chosen are the contenders that take part: those that are named, or all that can.
func chosen(named string, s scenario) (some []contender, err error) {
	names := strings.FieldsFunc(named, func(r rune) bool { return r == ',' })
	for _, c := range contenders {
		if (len(names) == 0 || slices.Contains(names, c.name)) && (c.only == "" || c.only == s.name) {
			some = append(some, c)
		}
	}
	if len(some) < len(names) {
		return nil, fmt.Errorf("-contender %q: not all of them are contenders that can do scenario %s: see -h", named, s.name)
	}
	return some, nil
}

// measure lets one contender work.
func measure(ctx context.Context, c contender, o options, s scenario, stderr *os.File) (r result, err error) {
	server, err := redisserver.Start()
	if err != nil {
		return r, err
	}
	defer server.Stop()
	a, err := openAPI(s.limits)
	if err != nil {
		return r, err
	}
	defer func() { _ = a.server.Close() }()
	rate, burst := s.limits[0].forLimiters()
	told := setup{Contender: c.name, Redis: server.Address, API: a.url, Handlers: o.handlers, Limits: s.limits, Rate: rate, Burst: burst, Jobs: o.tasks}
	crew, err := child.StartCrew(o.processes, func() (*child.Process, error) { return c.start(told) })
	if err != nil {
		return r, err
	}
	defer crew.Kill()

	most := 0.0
	for _, l := range s.limits {
		most += l.most(o.seconds)
	}
	bar := progress.New(stderr, c.name, min(o.tasks, int(most)))
	defer bar.Close()
	enqueuing, stop := context.WithCancel(ctx)
	defer stop()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	enqueued := make(chan struct{})
	go func() {
		defer close(enqueued)
		if err := c.enqueue(enqueuing, told, server.Admin, s.lines); err != nil && enqueuing.Err() == nil {
			fail(fmt.Errorf("enqueue: %w", err))
		}
	}()
	stall, err := a.wait(ctx, o.seconds, o.tasks, bar.Set)
	stop()
	<-enqueued
	if err != nil {
		return r, err
	}
	const worth = 25 * time.Millisecond // half of the jitter that the burst of scenario one is for
	if stall > worth {
		fmt.Fprintf(stderr, "this machine is busy: the API itself got no CPU for up to %v, and calls that came meanwhile may be refused\n", stall.Round(time.Millisecond))
	}
	return newResult(c.name, s, o.seconds, a), nil
}
