package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// poisson are the moments of calls that come at random, so many per second.
func poisson(seed uint64, perSecond float64, d time.Duration) []time.Duration {
	random := rand.New(rand.NewPCG(seed, 2))
	var moments []time.Duration
	for at := 0.0; ; {
		at += random.ExpFloat64() / perSecond * float64(time.Second)
		if at >= float64(d) {
			return moments
		}
		moments = append(moments, time.Duration(at))
	}
}

// bursts squeezes calls into the first part of each period, shifted by the phase:
// the same number as before, and nothing in between.
func bursts(moments []time.Duration, period, part, phase time.Duration) []time.Duration {
	squeezed := make([]time.Duration, len(moments))
	for i, at := range moments {
		squeezed[i] = at/period*period + time.Duration(float64(at%period)*float64(part)/float64(period)) + phase
	}
	return squeezed
}

// answered is a call of an open loop.
type answered struct {
	at   time.Duration // when it was let through, since the loop began
	wait time.Duration // how long it asked
}

const (
	// tick is between two looks at the clock: what has come due meanwhile is sent
	// together.
	tick = 500 * time.Microsecond

	// underWay is how many calls may wait for their answer. Who can not keep up
	// then gets the rest later, which shows in ops_per_second.
	underWay = 8192
)

// openLoop makes a call at each of the moments since began, whether or not those
// before have their answers, and returns when all have. The first error ends it.
func openLoop(ctx context.Context, ask func(context.Context) error, began time.Time, moments []time.Duration) ([]answered, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results := make([]answered, len(moments))
	slots := make(chan struct{}, underWay)
	var calls sync.WaitGroup
	for i, at := range moments {
		if d := at - time.Since(began); d > 0 {
			time.Sleep(max(d, tick))
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		calls.Go(func() {
			sent := time.Now()
			if err := ask(ctx); err != nil {
				cancel(err)
			}
			now := time.Now()
			results[i] = answered{at: now.Sub(began), wait: now.Sub(sent)}
			<-slots
		})
	}
	calls.Wait()
	return results, context.Cause(ctx)
}

// noteOpen puts the answers of one slice into a record.
func noteOpen(r *record, all []answered, commands int64) {
	waits := make([]float64, len(all))
	var last time.Duration
	for i, a := range all {
		waits[i] = float64(a.wait)
		last = max(last, a.at)
	}
	ops, ms := float64(len(all)), float64(time.Millisecond)
	r.note(nsPerOp, quantile(waits, 0.5))
	r.note(opsPerSec, ops/last.Seconds())
	r.note(cmdsPerOp, float64(commands)/ops)
	r.note("wait_ms_p50", quantile(waits, 0.5)/ms)
	r.note("wait_ms_p99", quantile(waits, 0.99)/ms)
}
