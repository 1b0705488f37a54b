package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fleetpace/fleetpace/reserve"
)

// traffic is what the cases about Config.Lease put on one limit: an open loop per
// limiter, each of which stands for a process.
type traffic struct {
	limit     bucket
	lease     time.Duration // of fleetpace-lease
	learns    time.Duration // it has the same demand for so long before it is measured
	limiters  int
	perSecond float64 // calls of all together
	shape     func(moments []time.Duration, limiter int) []time.Duration
	judged    bool // against the limit
}

func steady(moments []time.Duration, _ int) []time.Duration { return moments }

// sharedBucket fills in 500 ms, so permits can be held for 250 ms.
var sharedBucket = bucket{interval: 50 * time.Microsecond, burst: 10_000}

const (
	sharedLease = 250 * time.Millisecond
	sharedRate  = 0.8 * 20_000

	burstPeriod = 500 * time.Millisecond
	burstPart   = 100 * time.Millisecond
	processes   = 3
)

func runLease100k(ctx context.Context, s *session, t trial) ([]*record, error) {
	return runTraffic(ctx, s, t, traffic{
		limit: plenty(""), lease: time.Second, learns: 2 * time.Second, limiters: 1, perSecond: 100_000, shape: steady,
	})
}

func runLeaseSteady(ctx context.Context, s *session, t trial) ([]*record, error) {
	return runTraffic(ctx, s, t, traffic{
		limit: sharedBucket, lease: sharedLease, limiters: processes, perSecond: sharedRate, shape: steady, judged: true,
	})
}

// runLeaseBursty has the processes burst one after the other, so that each finds
// what the others hold missing.
func runLeaseBursty(ctx context.Context, s *session, t trial) ([]*record, error) {
	return runTraffic(ctx, s, t, traffic{
		limit: sharedBucket, lease: sharedLease, limiters: processes, perSecond: sharedRate, judged: true,
		shape: func(moments []time.Duration, limiter int) []time.Duration {
			return bursts(moments, burstPeriod, burstPart, time.Duration(limiter)*burstPeriod/processes)
		},
	})
}

// shortestRun of a lease: it has to live and to lapse.
const shortestRun = 1500 * time.Millisecond

// runTraffic gives each contender whole runs, each on a limit of its own, so that
// what one leaves in its hands is on nobody else's account. So there is none to warm
// up, and as many rounds as the time allows.
func runTraffic(ctx context.Context, s *session, t trial, load traffic) ([]*record, error) {
	each := t.time / time.Duration(len(t.contenders))
	rounds := min(max(int(each/shortestRun), 1), t.rounds)
	records := make([]*record, len(t.contenders))
	for i, c := range t.contenders {
		records[i] = newRecord(t.name, c.name)
	}
	for range rounds {
		for i, c := range t.contenders {
			s.describe(t.name + " " + c.name)
			if err := load.run(ctx, s, c, each/time.Duration(rounds), records[i]); err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			s.advance(each / time.Duration(rounds))
		}
	}
	return records, nil
}

// run is one run of a contender. A lease gets the end of the time without any
// calls: what it still holds goes back or lapses, and is counted.
func (load traffic) run(ctx context.Context, s *session, c contender, d time.Duration, r *record) error {
	load.limit.name = s.fresh()
	lease, settle := time.Duration(0), time.Duration(0)
	if c.name == leaseName {
		lease, settle = load.lease, min(2*load.lease, d/3)
	}
	var limiters []*reserve.Limiter
	for range load.limiters {
		client := s.client()
		defer client.Close()
		if err := connect(ctx, client); err != nil {
			return err
		}
		limiter, err := newLimiter(client, load.limit, lease)
		if err != nil {
			return err
		}
		defer limiter.Close()
		if err := limiter.Wait(ctx); err != nil {
			return err
		}
		limiters = append(limiters, limiter)
	}

	if lease > 0 && load.learns > 0 {
		if _, err := load.play(ctx, limiters, load.learns); err != nil {
			return err
		}
	}
	var all []answered
	commands, err := s.counted(ctx, c, func() (err error) {
		if all, err = load.play(ctx, limiters, d-settle); err != nil {
			return err
		}
		return rest(ctx, settle)
	})
	if err != nil {
		return err
	}
	noteOpen(r, all, commands)
	if lease > 0 {
		r.note("lost_share", lostShare(limiters))
	}
	if load.judged {
		moments := make([]time.Duration, len(all))
		for i, a := range all {
			moments[i] = a.at
		}
		perSecond := float64(time.Second) / float64(load.limit.interval)
		r.note("over_granted", float64(refusals(moments, perSecond, load.limit.burst)))
		r.note("burst_needed", float64(burstNeeded(moments, perSecond)))
	}
	return nil
}

// play lets the limiters have their calls, and returns the answers to all.
func (load traffic) play(ctx context.Context, limiters []*reserve.Limiter, d time.Duration) ([]answered, error) {
	parts := make([][]answered, len(limiters))
	group, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	for i, limiter := range limiters {
		moments := load.shape(poisson(uint64(i+1), load.perSecond/float64(load.limiters), d), i)
		if len(moments) == 0 {
			return nil, errTooShort
		}
		group.Go(func() (err error) {
			parts[i], err = openLoop(ctx, limiter.Wait, began, moments)
			return err
		})
	}
	err := group.Wait()
	return slices.Concat(parts...), err
}

// lostShare is what became of nobody, out of what was taken ahead of calls.
func lostShare(limiters []*reserve.Limiter) float64 {
	var lapsed, taken int64
	for _, l := range limiters {
		stats := l.LeaseStats()
		lapsed += stats.Lapsed
		taken += stats.Taken
	}
	return float64(lapsed) / float64(max(taken, 1))
}

// rest is a sleep that the context ends.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
