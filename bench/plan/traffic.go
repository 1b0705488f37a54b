package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/reserve"
)

const driverReserve, driverScripts = "reserve", "scripts"

// caller makes calls of one process; key is that of the limit within the name.
type caller interface {
	Wait(ctx context.Context, name, key int) error
	Close() error
}

// process is one process's worth of limiters.
type process struct {
	client  *redis.ClusterClient
	counter counter
	caller  caller
}

func newProcess(c *cluster, s scenario, driver, prefix string, names []string) (*process, error) {
	p := &process{client: c.client()}
	p.client.AddHook(&p.counter)
	if driver == driverScripts {
		p.caller = newScripted(p.client, s, prefix, names)
		return p, nil
	}
	limiters := make(limiters, len(names))
	for i, name := range names {
		var err error
		if limiters[i], err = reserve.New(p.client, s.config(prefix, name)); err != nil {
			return nil, err
		}
	}
	p.caller = limiters
	return p, nil
}

func (p *process) close() { _ = errors.Join(p.caller.Close(), p.client.Close()) }

// limiters are those of a process, by name.
type limiters []*reserve.Limiter

func (l limiters) Wait(ctx context.Context, name, key int) error {
	return l[name].For(strconv.Itoa(key)).Wait(ctx)
}

func (l limiters) Close() error {
	for _, limiter := range l {
		_ = limiter.Close()
	}
	return nil
}

// traffic is what processes do until their context ends.
type traffic struct {
	scenario scenario
	done     atomic.Int64 // calls that had their turn
	mu       sync.Mutex
	failed   error // the first
}

func (t *traffic) call(ctx context.Context, p *process) {
	limit := rand.IntN(t.scenario.Limits)
	err := p.caller.Wait(ctx, limit%t.scenario.Names, limit/t.scenario.Names)
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
// time as are to wait.
func (t *traffic) run(ctx context.Context, p *process) {
	var calls sync.WaitGroup
	defer calls.Wait()
	if t.scenario.Waiting > 0 {
		for range t.scenario.callers() / t.scenario.Processes {
			calls.Go(func() {
				for ctx.Err() == nil {
					t.call(ctx, p)
				}
			})
		}
		return
	}
	mean := float64(t.scenario.Processes) / t.scenario.Rate * float64(time.Second)
	for next := time.Now(); ; {
		next = next.Add(time.Duration(rand.ExpFloat64() * mean))
		if rest := time.Until(next); rest > 0 {
			timer := time.NewTimer(rest)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return
			}
		} else if ctx.Err() != nil {
			return
		}
		calls.Go(func() { t.call(ctx, p) })
	}
}
