package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/fleetpace/fleetpace/bench/internal/child"
)

const (
	fleetProcesses = 8
	fleetCallers   = 32 // in each process; half of them Wait, half Reserve
	fleetRate      = 1000.0
	fleetBurst     = 10

	// judgeBurst is that of the strict bucket that judges calls: what it has more than
	// the limiters is 50 ms for the jitter of the machine.
	judgeBurst = 60

	fleetBoot   = 5 * time.Second // until all processes are there, on a busy machine, too
	fleetLeadIn = time.Second     // until the burst is used up and all wait
)

// runAccuracy lets 8 processes share 1,000 calls/s, and judges when they are made.
func runAccuracy(ctx context.Context, s *session, t trial) ([]*record, error) {
	s.describe(t.name)
	r := newRecord(t.name, fleetpaceName)
	start := time.Now().Add(fleetBoot)
	order := setup{
		Redis: s.url, Name: s.fresh(), PerSecond: fleetRate, Burst: fleetBurst, Callers: fleetCallers,
		BareEvery: time.Duration(float64(fleetProcesses*time.Second) / fleetRate),
		Start:     start, For: fleetLeadIn + t.time,
	}
	var all tale
	commands, err := s.counted(ctx, t.contenders[0], func() (err error) {
		all, err = liveAll(ctx, order)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(all.Late) == 0 || len(all.Bare) == 0 {
		return nil, errTooShort
	}
	noteAccuracy(r, all, start.Add(fleetLeadIn), t.time)
	r.note(cmdsPerOp, float64(commands)/float64(len(all.Calls)))
	return []*record{r}, nil
}

// noteAccuracy judges all calls, and counts those of the window.
func noteAccuracy(r *record, all tale, from time.Time, window time.Duration) {
	moments := make([]time.Duration, len(all.Calls))
	inside := 0
	for i, at := range all.Calls {
		moments[i] = time.Duration(at - all.Calls[0])
		if since := time.Unix(0, at).Sub(from); since >= 0 && since < window {
			inside++
		}
	}
	r.note(opsPerSec, float64(inside)/window.Seconds())
	r.note("refused", float64(refusals(moments, fleetRate, judgeBurst)))
	r.note("burst_needed", float64(burstNeeded(moments, fleetRate)))
	r.note("utilization", float64(inside)/(fleetRate*window.Seconds()))
	r.note("lateness_ms_p50", millis(all.Late, 0.5))
	r.note("lateness_ms_p99", millis(all.Late, 0.99))
	r.note("bare_ms_p50", millis(all.Bare, 0.5))
	r.note("bare_ms_p99", millis(all.Bare, 0.99))
}

func millis(nanos []int64, q float64) float64 {
	values := make([]float64, len(nanos))
	for i, n := range nanos {
		values[i] = float64(n) / float64(time.Millisecond)
	}
	return quantile(values, q)
}

// liveAll starts the processes and collects what they tell.
func liveAll(ctx context.Context, order setup) (tale, error) {
	var members []*child.Process
	stop := func() {
		for _, m := range members {
			m.Stop()
		}
	}
	// Ctrl-C: their stdin ends, and so do they.
	defer context.AfterFunc(ctx, stop)()
	for range fleetProcesses {
		m, err := child.Start(memberRole, order)
		if err != nil {
			stop()
			return tale{}, fmt.Errorf("start a process: %w", err)
		}
		members = append(members, m)
	}
	defer stop()
	var all tale
	var failed error
	for _, m := range members {
		var one tale
		err := json.NewDecoder(m.Stdout).Decode(&one)
		if waited := m.Wait(); err == nil {
			err = waited
		}
		if err != nil && failed == nil {
			failed = fmt.Errorf("a process of the fleet: %w: %s", err, m.Said())
		}
		all.Calls = append(all.Calls, one.Calls...)
		all.Late = append(all.Late, one.Late...)
		all.Bare = append(all.Bare, one.Bare...)
	}
	if ctx.Err() != nil {
		return tale{}, ctx.Err()
	}
	return all, failed
}
