package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/reserve"
)

// scenario is a workload that is carried out.
type scenario struct {
	Name string
	workload
}

// scenarios show one thing each; they are small, as callers and shards share a machine.
var scenarios = []scenario{
	{"many limits", workload{Rate: 1200, Processes: 4, Limits: 60, Names: 6, Fill: 2 * time.Second}},
	{"few limits", workload{Rate: 2400, Processes: 4, Limits: 3, Names: 3, Fill: 2 * time.Second}},
	{"lease 1s", workload{Rate: 2400, Processes: 4, Limits: 12, Names: 3, Fill: 2 * time.Second, Lease: time.Second}},
	{"waiting", workload{Rate: 240, Processes: 4, Limits: 12, Names: 3, Fill: time.Second, Waiting: 480}},
}

// limit is that of each key. Where nobody waits, it allows twice of what is asked, so that
// permits are stored.
func (s scenario) limit() reserve.Limit {
	rate := s.Rate / float64(s.Limits)
	if s.Waiting == 0 {
		rate *= 2
	}
	return reserve.PerSecond(rate).Burst(max(1, int(rate*s.Fill.Seconds())))
}

// callers are how many calls there are all the time where calls wait: those that have been
// given their turns, which are not due yet, come on top.
func (s scenario) callers() int { return s.Waiting + int(s.Rate*leadSeconds) }

// process is one process's worth of limiters.
type process struct {
	client   redis.UniversalClient
	counter  counter
	limiters []*reserve.Limiter // by name
}

func newProcess(client redis.UniversalClient, s scenario, prefix string, names []string) (*process, error) {
	p := &process{client: client}
	client.AddHook(&p.counter)
	for _, name := range names {
		limiter, err := reserve.New(client, reserve.Config{Prefix: prefix, Name: name, Limit: s.limit(), Lease: s.Lease})
		if err != nil {
			return nil, err
		}
		p.limiters = append(p.limiters, limiter)
	}
	return p, nil
}

func (p *process) close() {
	for _, l := range p.limiters {
		_ = l.Close()
	}
	_ = p.client.Close()
}

// traffic is what processes do until their context ends.
type traffic struct {
	scenario scenario
	done     atomic.Int64 // calls that had their turn
	mu       sync.Mutex
	failed   error // the first
}

// call makes a call of a limit.
func (t *traffic) call(ctx context.Context, p *process, limit int) {
	names := t.scenario.Names
	err := p.limiters[limit%names].For(strconv.Itoa(limit / names)).Wait(ctx)
	switch {
	case err == nil:
		t.done.Add(1)
	case ctx.Err() == nil:
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.failed == nil {
			t.failed = fmt.Errorf("a call failed: %w", err)
		}
	}
}

// run makes the calls of one process, in no order (Poisson), or as many at the same
// time as are to wait, spread evenly over the limits.
func (t *traffic) run(ctx context.Context, p *process) {
	var calls sync.WaitGroup
	defer calls.Wait()
	s := t.scenario
	if s.Waiting > 0 {
		for i := range s.callers() / s.Processes {
			limit := i % s.Limits
			// Limits whose turns came at the same moments would share more trips.
			_, phase := math.Modf(float64(limit) * math.Phi)
			calls.Go(func() {
				_ = sleep(ctx, time.Duration(phase*float64(time.Second)))
				for ctx.Err() == nil {
					t.call(ctx, p, limit)
				}
			})
		}
		return
	}
	mean := float64(s.Processes) / s.Rate * float64(time.Second)
	for next := time.Now(); ; {
		next = next.Add(time.Duration(rand.ExpFloat64() * mean))
		if sleep(ctx, time.Until(next)) != nil {
			return
		}
		calls.Go(func() { t.call(ctx, p, rand.IntN(s.Limits)) })
	}
}

// sleep returns early, and with an error, if the context ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// observed is what was measured of a scenario, per second.
type observed struct {
	scenario scenario  // with the rate and round trip that it came to
	trips    figures   // as callers counted them
	shards   []figures // as servers did
}

// observe carries a scenario out on some servers, and measures it for a time. While calls are
// still made it looks, in the end.
func (t *traffic) observe(ctx context.Context, shards []*redis.Client, processes []*process, settle, length time.Duration, look func() error) (o observed, err error) {
	working, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for _, p := range processes {
		all.Go(func() { t.run(working, p) })
	}
	if err := sleep(ctx, settle); err != nil {
		return o, err
	}
	var before observed
	var began time.Time
	for i, d := range []time.Duration{0, length} {
		if err := sleep(ctx, d); err != nil {
			return o, err
		}
		before, o = o, observed{trips: figures{"done": float64(t.done.Load())}}
		at := time.Now()
		for _, p := range processes {
			o.trips = o.trips.plus(p.counter.read(), 1)
		}
		for _, client := range shards {
			f, err := read(ctx, client)
			if err != nil {
				return o, err
			}
			o.shards = append(o.shards, f)
		}
		if i == 0 {
			began = at
			continue
		}
		elapsed := at.Sub(began).Seconds()
		o.trips = o.trips.plus(before.trips, -1).per(elapsed)
		for j := range o.shards {
			o.shards[j] = o.shards[j].plus(before.shards[j], -1).per(elapsed)
		}
	}
	if err := look(); err != nil {
		return o, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	o.scenario = t.scenario
	o.scenario.Rate = o.trips["done"]
	calls := o.trips["ask"] + o.trips["beat"] + o.trips["other"]
	o.scenario.RTT = max(time.Microsecond, time.Duration(o.trips["seconds"]/max(calls, 1e-9)*float64(time.Second)))
	return o, t.failed
}
