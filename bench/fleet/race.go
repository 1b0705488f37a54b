package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/fleetpace/fleetpace/bench/internal/database"
	"github.com/fleetpace/fleetpace/internal/progress"
)

// race measures one contender after the other, each on an empty Redis, and
// reports on each as soon as it is done.
func race(ctx context.Context, o options, stdout io.Writer, stderr *os.File) error {
	url, stop, err := database.Open(o.redisURL)
	if err != nil {
		return err
	}
	defer stop()
	logging.Disable() // what goes wrong in the parent ends the program
	address, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	client := redis.NewClient(address)
	defer client.Close()
	if err := database.ExpectEmpty(ctx, client, "contenders"); err != nil {
		return err
	}
	announce(stderr, o)
	report := newReport(stdout, o.json)
	defer report.close()
	for _, c := range o.contenders {
		r, err := measure(ctx, c, o, url, client, stderr)
		if err := errors.Join(err, database.Empty(client)); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		for _, f := range figures(o.scenario, c.name, r) {
			report.add(f)
		}
		if err := drawAll(o, c, r); err != nil {
			return err
		}
	}
	return nil
}

func announce(w io.Writer, o options) {
	for _, l := range o.scenario.limits {
		if l.Slots > 0 {
			fmt.Fprintf(w, "limit %s: the API takes %d calls at once, which take from %v to %v\n", l.Name, l.Slots, leastCall, mostCall)
			continue
		}
		rate, burst := l.forLimiters()
		each := ""
		if o.scenario.tenants > 0 {
			each = fmt.Sprintf(" for each of %d tenants", o.scenario.tenants)
		}
		fmt.Fprintf(w, "limit %s: the API takes %g/s with a burst of %d%s; ", l.Name, l.Rate, l.Burst, each)
		if burst < l.Burst {
			fmt.Fprintf(w, "every limiter is set to the same rate and a burst of %d, so that the rest of the burst is left to jitter\n", burst)
		} else {
			fmt.Fprintf(w, "every limiter paces %.0f %% below, at %g/s, since there is no burst that jitter could use\n", 100*(1-paceShare), rate)
		}
	}
	fmt.Fprintf(w, "%d processes of %d working handlers; asynq looks for tasks every %v and for delayed ones every %v\n",
		o.processes, o.handlers, o.polls.Task, o.polls.Delayed)
}

// measure lets one contender run.
func measure(ctx context.Context, c contender, o options, url string, client *redis.Client, stderr *os.File) (result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a, err := openAPI(o.scenario.limits)
	if err != nil {
		return result{}, err
	}
	defer a.close()
	jobs := o.scenario.jobs(o.tasks, o.seconds)
	s := setup{Contender: c.name, Redis: url, API: a.url, Handlers: o.handlers, Polls: o.polls, Limits: o.scenario.limits, Queues: queues(jobs),
		BareEvery: time.Duration(o.processes) * bareInterval}
	servers, err := startCrew(ctx, o.processes, memberRole, s, cancel)
	if err != nil {
		return result{}, err
	}
	defer servers.stop()
	beside, err := startCrew(ctx, o.processes, bareRole, s, cancel)
	if err != nil {
		return result{}, err
	}
	defer beside.stop()

	bar := progress.New(stderr, c.name, min(len(jobs), o.scenario.most(o.seconds)))
	defer bar.Close()
	enqueuing, stopEnqueuing := context.WithCancel(ctx)
	enqueued := make(chan struct{})
	go func() {
		defer close(enqueued)
		if err := c.enqueue(enqueuing, s, client, jobs); err != nil && enqueuing.Err() == nil {
			cancel(fmt.Errorf("enqueue: %w", err))
		}
	}()
	stall, err := a.waitUntilDone(ctx, len(jobs), o.seconds, bar.Set)
	stopEnqueuing()
	<-enqueued
	notes, said := servers.stop()
	beside.stop()
	bar.Close()
	if stall > stallLimit {
		fmt.Fprintf(stderr, "this machine is busy: the API itself got no CPU for up to %v, and calls that came meanwhile count as late, or are refused\n",
			stall.Round(time.Millisecond))
	}
	for _, text := range said {
		fmt.Fprintf(stderr, "a server of %s said:\n%s\n", c.name, text)
	}
	if err != nil {
		return result{}, err
	}
	calls, bare := a.history()
	return newResult(jobs, o.seconds, calls, bare, notes), nil
}
