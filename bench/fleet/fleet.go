// Package fleet lets a fleet of processes call a rate-limited API, paced by fleetpace and by what
// people build for that, and measures how much of the limit each uses, how many calls are refused,
// and how long tasks wait.
package fleet

import (
	"cmp"
	"context"
	"encoding/json"
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

const usage = `The same work, the same limit, the same time: a fleet of processes works through tasks that each
call a strict API, paced by each contender in turn, on an empty Redis.

Scenarios:
  one      2,000 tasks, one API that takes 100 calls/s with a burst of 10
  mixed    every fifth task calls an API of 5/s (burst 2), the others one of 100/s (burst 10);
           all are in one queue
  tenants  200 tenants, each allowed 1 call/s without any burst, shuffled in one queue
  flood    20,000 tasks of -flooders tenants at once, and -others tenants with a task each second;
           they share an API of 50/s (burst 10)
  urgent   20,000 tasks at once, and each second one for which somebody waits; 100/s (burst 10)
  slots    an API that takes -slots calls at once, each of 5 to 50 ms

Contenders:
  fleetpace-worker     asynq's client enqueues; package worker gives turns
  fleetpace-scheduler  package scheduler enqueues, with the same workers
  asynq-recipe         asynq's wiki: a task that redis_rate does not allow goes back for 0 to 9 s
  window-requeue       fixed windows, as Hatchet counts: a task goes back until the next window
  sleep-in-handler     redis_rate: the handler sleeps as long as it says, and asks again
  bullmq               BullMQ's worker with its limiter (Node, from npm), in scenario one

All limiters get the API's rate and half of its burst; the other half is for the jitter of the way.
Where the API allows no burst they pace 2 % below its rate. Each handler makes one HTTP call and
works 5 ms. A call that the API refuses (429) fails its task, or puts it back.

Columns, of a window that begins with the first call and ends after -seconds or the last task:
  used     accepted calls / the most that the API could have accepted
  refused  calls that the API answered with 429
  entries  how often a task that is done had entered its handler, on average
  late     of fleetpace: how long after its turn a call arrived (median, 99th percentile)
  waited   of a group of tasks: from enqueueing until the call arrived (median, 99th percentile)

Flags:
`

type options struct {
	scenario, contender, chart string
	seconds                    time.Duration
	tasks, processes, handlers int
	flooders, others, slots    int
	noShares, usual, json      bool
}

// Run lets one contender after the other work, and prints what each came to.
func Run(ctx context.Context, args []string, stdout io.Writer, stderr *os.File) error {
	var o options
	fs := flag.NewFlagSet("fleet", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() { fmt.Fprint(stderr, usage); fs.PrintDefaults() }
	fs.StringVar(&o.scenario, "scenario", "one", "one of "+strings.Join(scenarioNames, ", "))
	fs.StringVar(&o.contender, "contender", "", "contenders, with commas between; empty: all")
	fs.StringVar(&o.chart, "chart", "", "draw the calls of each contender to an SVG file like this, with its name at the end")
	fs.DurationVar(&o.seconds, "seconds", 10*time.Second, "length of the window")
	fs.IntVar(&o.tasks, "tasks", 0, "tasks in the backlog; 0: as the scenario has")
	fs.IntVar(&o.processes, "processes", 4, "processes")
	fs.IntVar(&o.handlers, "handlers", 25, "handlers that work at once in each of them")
	fs.IntVar(&o.flooders, "flooders", 1, "flood: tenants that have all their tasks at once")
	fs.IntVar(&o.others, "others", 10, "flood: tenants with a task each second")
	fs.BoolVar(&o.noShares, "no-shares", false, "flood, urgent: tasks do not name their flows")
	fs.IntVar(&o.slots, "slots", 10, "slots: calls that the API takes at once")
	fs.BoolVar(&o.usual, "usual-polls", false, "asynq's own polling intervals (1 s, 5 s) in place of 100 ms")
	fs.BoolVar(&o.json, "json", false, "a line of JSON per contender and limit")
	if err := fs.Parse(args); err != nil {
		return err
	}
	s, err := scenarioOf(o)
	if err != nil {
		return err
	}
	if o.seconds < time.Second || min(o.processes, o.handlers, o.flooders, o.slots) < 1 || min(o.others, o.tasks) < 0 || fs.NArg() > 0 {
		return errors.New("want -seconds of 1s or more, at least one of -processes, -handlers, -flooders and -slots, no number below 0, and flags only")
	}
	some, err := chosen(ctx, o.contender, s, stderr)
	if err != nil {
		return err
	}
	report := &report{w: stdout, json: o.json}
	for _, c := range some {
		r, err := measure(ctx, c, o, s, stderr)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if err := errors.Join(report.add(r.figures()), r.draw(o.chart)); err != nil {
			return err
		}
	}
	return report.close()
}

// chosen are the contenders that take part: those that are named, or all that can.
func chosen(ctx context.Context, named string, s scenario, stderr io.Writer) (some []contender, err error) {
	names := strings.FieldsFunc(named, func(r rune) bool { return r == ',' })
	for _, name := range names {
		if _, ok := contenderNamed(name); !ok {
			return nil, fmt.Errorf("there is no contender %q", name)
		}
	}
	for _, c := range contenders {
		switch {
		case len(names) > 0 && !slices.Contains(names, c.name), len(names) == 0 && c.cannot != nil && c.cannot(s):
			continue
		case c.cannot != nil && c.cannot(s):
			return nil, fmt.Errorf("%s has no way to do scenario %s", c.name, s.name)
		case c.ready != nil:
			err := c.ready(ctx)
			if errors.Is(err, errNoNode) && len(names) == 0 {
				fmt.Fprintln(stderr, err, "and is left out")
				continue
			}
			if err != nil {
				return nil, err
			}
		}
		some = append(some, c)
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
	client := server.Client()
	defer func() { _ = client.Close() }()
	s.jobs = slices.Clone(s.jobs)
	a, err := openAPI(&s)
	if err != nil {
		return r, err
	}
	defer a.close()
	rate, burst := s.limits[0].forLimiters()
	told := setup{Contender: c.name, Redis: server.Address, API: a.url, Handlers: o.handlers, Task: 100 * time.Millisecond,
		Delayed: 100 * time.Millisecond, Limits: s.limits, Rate: rate, Burst: burst}
	if o.usual {
		told.Task, told.Delayed = time.Second, 5*time.Second
	}
	crew, err := startCrew(c, o.processes, told)
	if err != nil {
		return r, err
	}
	defer crew.stop()

	most := 0.0
	for _, l := range s.limits {
		most += l.most(o.seconds) * float64(max(1, s.tenants))
	}
	bar := progress.New(stderr, c.name, min(len(s.jobs), int(most)))
	defer bar.Close()
	enqueuing, stop := context.WithCancel(ctx)
	defer stop()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	enqueued := make(chan struct{})
	go func() {
		defer close(enqueued)
		if err := c.enqueue(enqueuing, told, client, s.jobs); err != nil && enqueuing.Err() == nil {
			fail(fmt.Errorf("enqueue: %w", err))
		}
	}()
	stall, err := a.wait(ctx, o.seconds, bar.Set)
	stop()
	<-enqueued
	entries, ended := crew.stop()
	if err := cmp.Or(err, ended); err != nil {
		return r, err
	}
	const worth = 25 * time.Millisecond // half of the jitter that the burst of scenario one is for
	if stall > worth {
		fmt.Fprintf(stderr, "this machine is busy: the API itself got no CPU for up to %v, and calls that came meanwhile may be refused\n", stall.Round(time.Millisecond))
	}
	return newResult(c.name, s, o.seconds, a.close(), entries), nil
}

// crew is the processes that make the calls.
type crew struct {
	processes []*child.Process
	lines     []*json.Decoder
	entries   map[string]int
	err       error
}

// startCrew returns when all processes are ready.
func startCrew(c contender, processes int, s setup) (*crew, error) {
	w := &crew{}
	for range processes {
		start := c.start
		if start == nil {
			start = func(s setup) (*child.Process, error) { return child.Start(MemberRole, s) }
		}
		p, err := start(s)
		if err != nil {
			return nil, errors.Join(err, w.kill())
		}
		w.processes, w.lines = append(w.processes, p), append(w.lines, json.NewDecoder(p.Stdout))
	}
	for i, p := range w.processes {
		var ready string
		if err := w.lines[i].Decode(&ready); err != nil {
			_ = w.kill()
			return nil, fmt.Errorf("a process ended before it was ready: %s", p.Said())
		}
	}
	return w, nil
}

func (w *crew) kill() error {
	for _, p := range w.processes {
		p.Kill()
		_ = p.Wait()
	}
	w.processes = nil
	return nil
}

// stop ends all processes, and returns how often each task entered its handler. It may be called
// again.
func (w *crew) stop() (map[string]int, error) {
	for _, p := range w.processes {
		p.Stop()
	}
	for i, p := range w.processes {
		entries := map[string]int{}
		if err := w.lines[i].Decode(&entries); err != nil {
			w.err = cmp.Or(w.err, fmt.Errorf("a process ended before it was told to: %w, it said %s", errors.Join(err, p.Wait()), p.Said()))
			continue
		}
		if w.entries == nil {
			w.entries = map[string]int{}
		}
		for task, n := range entries {
			w.entries[task] += n
		}
		_ = p.Wait()
	}
	w.processes = nil
	return w.entries, w.err
}
