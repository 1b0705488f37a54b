package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// sample is what one slice of a closed loop gave.
type sample struct {
	ops     int64
	elapsed time.Duration
	tail    time.Duration // of it, for calls that were under way
	allocs  uint64
}

var errTooShort = errors.New("no call was answered in a slice: give it more -seconds, or fewer -rounds")

const (
	// firstAnswer is how long it may take until anybody has an answer.
	firstAnswer = 10 * time.Second

	// turn is how many calls a goroutine makes before it lets others run. Without
	// that, thousands that never block let each other and the end of the slice wait
	// for seconds.
	turn = 64
)

// closedLoop lets so many goroutines ask, each again as soon as it has its answer.
// Each picks its keys at random, if there are some.
func closedLoop(ctx context.Context, a asker, goroutines int, keys []string, d time.Duration) (sample, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		stop   atomic.Bool
		some   atomic.Bool
		ops    atomic.Int64
		once   sync.Once
		failed error
		ready  sync.WaitGroup
		ended  sync.WaitGroup
		gate   = make(chan struct{})
	)
	fail := func(err error) { // apart from the loop, which must not allocate
		if ctx.Err() == nil {
			once.Do(func() { failed = err })
			stop.Store(true)
			cancel()
		}
	}
	calls := a.context(ctx)
	ready.Add(goroutines)
	for i := range goroutines {
		ended.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			var done int64
			defer func() { ops.Add(done) }()
			ready.Done()
			<-gate
			for i == 0 && done == 0 || !stop.Load() { // one at least, if the machine stalls
				key := ""
				if len(keys) > 0 {
					key = keys[random.IntN(len(keys))]
				}
				if err := a.ask(calls, key); err != nil {
					fail(err)
					return
				}
				if done++; done == 1 {
					some.Store(true)
				}
				if done%turn == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	ready.Wait()
	runtime.GC() // what others left behind is not paid by this one
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	close(gate)
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	stop.Store(true)
	stopped := time.Now()
	if a.cut {
		for !some.Load() && time.Since(stopped) < firstAnswer && ctx.Err() == nil {
			_ = rest(ctx, time.Millisecond)
		}
		cancel()
	}
	ended.Wait()
	now := time.Now()
	runtime.ReadMemStats(&after)
	s := sample{ops: ops.Load(), elapsed: now.Sub(began), tail: now.Sub(stopped), allocs: after.Mallocs - before.Mallocs}
	if failed != nil {
		return s, failed
	}
	if s.ops == 0 && ctx.Err() == nil {
		return s, errTooShort
	}
	return s, nil
}

// noteClosed puts a slice into the record of its contender.
func noteClosed(r *record, s sample, commands int64) {
	ops := float64(s.ops)
	r.note(nsPerOp, float64(s.elapsed)/ops)
	r.note(opsPerSec, ops/s.elapsed.Seconds())
	r.note(cmdsPerOp, float64(commands)/ops)
	r.note(allocsPerOp, float64(s.allocs)/ops)
}

// counted returns how many commands the contender's client sent while f ran.
func (s *session) counted(ctx context.Context, c contender, f func() error) (int64, error) {
	if c.sent == nil {
		return 0, f()
	}
	before, err := commandStats(ctx, s.admin)
	if err != nil {
		return 0, fmt.Errorf("ask Redis for its commandstats: %w", err)
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := commandStats(ctx, s.admin)
	if err != nil {
		return 0, fmt.Errorf("ask Redis for its commandstats: %w", err)
	}
	return c.sent(after) - c.sent(before), nil
}
