package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/bench/internal/command"
	"github.com/fleetpace/fleetpace/bench/internal/database"
)

const usage = `The same work, the same limit, the same time: a fleet of asynq processes calls a
strict API, paced by each contender in turn.

  go run ./fleet                            scenario one, all contenders, as a table
  go run ./fleet -json -scenario mixed      one JSON line per contender and limit
  go run ./fleet -handlers 5 -tasks 20000 -contender fleetpace-worker,sleep-in-handler

Scenarios:
  one      2,000 tasks, one API that takes 100 calls/s with a burst of 10
  mixed    every fifth task calls an API of 5/s (burst 2), the others one of 100/s
           (burst 10); all are in one queue
  flood    20,000 tasks of one tenant at once, and 10 others with a task each second,
           in a queue of their own; they share an API of 50/s (burst 10)
  urgent   20,000 tasks at once, and each second one for which somebody waits, in a
           queue of its own; one API of 100/s (burst 10)
  slots    10,000 tasks; one API that takes 10 calls at once, each of 5 to 50 ms
  tenants  200 tenants, each allowed 1 call/s without any burst, each with more tasks
           than it can make, shuffled in one queue

Contenders:
  fleetpace-worker     asynq's own client enqueues; package worker gives turns
  fleetpace-scheduler  package scheduler enqueues, with the same workers
  asynq-recipe         what asynq's wiki documents under Rate Limiting, with
                       go-redis/redis_rate as a limiter for the whole fleet: a task that
                       is not allowed goes back for a random 0 to 9 s (at least as
                       long as the limiter says), which counts as no failure
                       Where the API has slots: the semaphore of asynq's x/rate; a task that
                       does not get one goes back for 30 s, as in its example
  sleep-in-handler     redis_rate; the handler sleeps as long as the limiter says and
                       asks again

All limiters get the API's rate and half of its burst: the other half is for the
jitter of the way. Where the API allows no burst they pace 2 % below its rate.
All servers poll at the same intervals. Each handler makes one HTTP call and works
5 ms, except in slots, where the call is the work. A call that the API refuses (429)
fails its task.

Columns (the time measured starts with the contender's first call and lasts
-seconds, or until the last task is done):
  tasks        that there are
  done         tasks whose call was accepted in that time
  seconds      the length of that time
  utilization  accepted calls per call that the API could have accepted in that
               time at most, the full bucket at its start included: never above 1.
               Of slots: accepted calls per call that would have been served, if none
               had ever stood idle. Limiters get less than the rate: half of the burst, or 98 % of the rate
  refused      calls that the API refused
  entries      how often a task entered its handler chain, mean of those done
  late p50/99  how long after the moment that the limiter named last the call
               arrived, in ms; 0 when before. For fleetpace it is worker.Due. redis_rate
               names the time of its last answer plus RetryAfter; where it
               allows the first time it is asked, the moment of that answer. A
               promise of the recipe is kept by the parent process for when the task
               comes again
  bare p99     the same for bare calls beside the contender, by processes that sleep
               until a moment, call, and ask no limiter: how late this machine alone
               makes a call
  wait p50/99  how long after it was enqueued the task's call arrived, in flood and urgent,
               where a line is a group of tasks, after that of all (of those done)
In scenario tenants there are two lines: the mean of all tenants (late: of all
calls), and the worst value that any tenant has in each column.

Flags:
`

// options are the command line, checked.
type options struct {
	scenario   scenario
	contenders []contender
	seconds    time.Duration
	processes  int
	handlers   int
	tasks      int     // 0: the scenario's own number
	rate       float64 // 0: the scenario's own limits
	slots      int     // the same
	flooders   int
	others     int
	noShares   bool
	polls      polls
	redisURL   string // empty: a redis-server of our own
	json       bool
	chart      string
}

// polls are how often asynq looks for tasks.
type polls struct {
	Task, Delayed time.Duration
}

var intervals = map[string]polls{
	"short": {Task: 100 * time.Millisecond, Delayed: 100 * time.Millisecond},
	"asynq": {Task: time.Second, Delayed: 5 * time.Second},
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	var scenarioName, contenderNames, intervalsName string
	var seconds float64
	fs := command.NewFlags("fleet", usage, stderr)
	fs.StringVar(&scenarioName, "scenario", "one", "the `name` of the scenario: one, mixed, flood, urgent, slots or tenants")
	fs.StringVar(&contenderNames, "contender", "", "`names` of contenders, separated by commas (default all)")
	fs.Float64Var(&seconds, "seconds", 12, "how long each contender is measured")
	fs.IntVar(&o.processes, "processes", 4, "number of server processes")
	fs.IntVar(&o.handlers, "handlers", 25, "handlers that work at once in a process (asynq's Concurrency)")
	fs.IntVar(&o.tasks, "tasks", 0, "number of tasks (default 2000; in tenants enough for all the time)")
	fs.Float64Var(&o.rate, "rate", 0, "calls per second that the API of scenario one takes (default 100); the burst stays 10")
	fs.IntVar(&o.slots, "slots", 0, "calls at once that the API of scenario slots takes (default 10)")
	fs.IntVar(&o.flooders, "flooders", 1, "tenants that have the 20,000 tasks of scenario flood, each as many")
	fs.IntVar(&o.others, "others", 10, "tenants of scenario flood with a task each second")
	fs.BoolVar(&o.noShares, "no-shares", false, "in scenario flood nobody says whose a task is")
	fs.StringVar(&intervalsName, "intervals", "short", "polling `intervals` of asynq, for all contenders: short (100 ms for both) or asynq (its own: 1 s and 5 s)")
	fs.StringVar(&o.redisURL, "redis", "", "use the Redis at this `URL`, such as redis://localhost:6379/9, instead of an own one; the database must be empty and is emptied again")
	fs.BoolVar(&o.json, "json", false, "print one JSON object per line instead of a table")
	fs.StringVar(&o.chart, "chart", "", "draw the calls over time, one picture per contender and limit: the contender's name is put before the ending of this `file` (.svg or .png)")
	if err := command.Parse(fs, args); err != nil {
		return o, err
	}
	o.seconds = time.Duration(seconds * float64(time.Second))
	return o, errors.Join(o.choose(scenarioName, contenderNames, intervalsName), o.check())
}

func (o *options) choose(scenarioName, contenderNames, intervalsName string) error {
	var ok bool
	if o.scenario, ok = scenarios[scenarioName]; !ok {
		return fmt.Errorf("-scenario %q: want one, mixed, flood, urgent, slots or tenants", scenarioName)
	}
	if o.polls, ok = intervals[intervalsName]; !ok {
		return fmt.Errorf("-intervals %q: want short or asynq", intervalsName)
	}
	if o.rate != 0 {
		if err := o.setRate(); err != nil {
			return err
		}
	}
	if err := o.setSlots(); err != nil {
		return err
	}
	if err := o.setFlood(); err != nil {
		return err
	}
	if contenderNames == "" {
		o.contenders = contenders
		return nil
	}
	for name := range strings.SplitSeq(contenderNames, ",") {
		c, ok := contenderNamed(strings.TrimSpace(name))
		if !ok {
			return fmt.Errorf("-contender %q: want names out of %s", name, strings.Join(names(), ", "))
		}
		o.contenders = append(o.contenders, c)
	}
	return nil
}

func (o *options) setRate() error {
	if o.scenario.name != "one" {
		return fmt.Errorf("-rate %g: only for scenario one", o.rate)
	}
	if !(o.rate >= 0.1 && o.rate <= 100_000) {
		return fmt.Errorf("-rate %g: want 0.1 to 100000", o.rate)
	}
	l := o.scenario.limits[0]
	l.Rate = o.rate
	o.scenario.limits = []limit{l}
	return nil
}

func (o *options) setSlots() error {
	switch {
	case o.slots == 0:
		return nil
	case o.scenario.name != "slots":
		return fmt.Errorf("-slots %d: only for scenario slots", o.slots)
	case o.slots < 0 || o.slots > 1000:
		return fmt.Errorf("-slots %d: want 1 to 1000", o.slots)
	}
	l := o.scenario.limits[0]
	l.Slots = o.slots
	o.scenario.limits = []limit{l}
	return nil
}

func (o *options) setFlood() error {
	switch {
	case o.flooders == 1 && o.others == 10 && !o.noShares:
		return nil
	case o.scenario.name != "flood":
		return errors.New("-flooders, -others and -no-shares: only for scenario flood")
	case o.flooders < 1 || o.flooders > 99:
		return fmt.Errorf("-flooders %d: want 1 to 99", o.flooders)
	case o.others < 0 || o.others > 1000:
		return fmt.Errorf("-others %d: want 0 to 1000", o.others)
	}
	o.scenario = flood(o.flooders, o.others, !o.noShares)
	return nil
}

func (o *options) check() error {
	if o.seconds < time.Second || o.seconds > time.Hour {
		return fmt.Errorf("-seconds %v: want 1 to 3600", o.seconds.Seconds())
	}
	for _, f := range []struct {
		name         string
		value, least int
	}{{"-processes", o.processes, 1}, {"-handlers", o.handlers, 1}, {"-tasks", o.tasks, 0}} {
		if f.value < f.least {
			return fmt.Errorf("%s %d: want at least %d", f.name, f.value, f.least)
		}
	}
	if err := database.CheckURL(o.redisURL); err != nil {
		return err
	}
	if ext := strings.ToLower(filepath.Ext(o.chart)); o.chart != "" && !slices.Contains([]string{".svg", ".png"}, ext) {
		return fmt.Errorf("-chart %q: want a name that ends in .svg or .png", o.chart)
	}
	return nil
}
