package engine_test

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/engine"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// provider is a strict one: it counts the calls that it refuses.
type provider struct {
	mu       sync.Mutex
	interval time.Duration
	bears    time.Duration // as burst, besides one call
	full     time.Time     // when its bucket is full again
	calls    int
	refused  int
	worst    time.Duration // by how much a call was too early
}

// strict is the provider of a limit. It bears 5 ms of jitter: a process does not know how far
// away Redis is before its first call.
func strict(perSecond float64, burst int) *provider {
	interval := time.Duration(float64(time.Second) / perSecond)
	return &provider{interval: interval, bears: time.Duration(burst-1)*interval + 5*time.Millisecond}
}

func (p *provider) made() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

func (p *provider) call() {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	full := p.full
	if full.Before(now) {
		full = now
	}
	if full.Sub(now) > p.bears {
		p.refused++
		p.worst = max(p.worst, full.Sub(now)-p.bears)
		return
	}
	p.full = full.Add(p.interval)
}

// shorter is a span that the race detector, which is slow, can bear, too. A plain run plays it as well.
func shorter(span float64) float64 {
	if redistest.Budget(raceDetector, true) {
		return span / 3
	}
	return span
}

// seconds is so many of them.
func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// closed lets callers of a process call one after the other for a time. A part of the waits
// is given up.
func (p *process) closed(callers int, span time.Duration, need engine.Need, judge *provider, quits float64) *sync.WaitGroup {
	end := time.Now().Add(span)
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for time.Now().Before(end) {
				ctx, cancel := context.WithCancel(p.bubble.Context())
				if rand.Float64() < quits {
					time.AfterFunc(time.Duration(rand.Int64N(int64(2*time.Second))), cancel)
				}
				_, err := p.Wait(ctx, need)
				if err == nil {
					judge.call()
				}
				cancel()
				if p.bubble.Context().Err() != nil { // the test is over: no time passes any more
					return
				}
			}
		})
	}
	return &group
}

func TestOneCallHasItsTurnAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newBubble(t).process(0)
		began := time.Now()
		_, err := p.Wait(t.Context(), one(p.paced("", 10, 1)))
		require.NoError(t, err)
		require.Zero(t, time.Since(began))
	})
}

// A fleet uses all of its limit, and a strict provider refuses none.
func TestFleet(t *testing.T) {
	for _, c := range []struct {
		what    string
		rate    float64
		burst   int
		ways    []time.Duration
		callers int
		span    float64
		quits   float64
		bears   time.Duration
		used    float64
		asks    float64
	}{
		{what: "steady", rate: 100, burst: 1, ways: make([]time.Duration, 4), callers: 20, span: 10, used: 0.99, asks: 2},
		{what: "a burst", rate: 100, burst: 10, ways: make([]time.Duration, 4), callers: 20, span: 10, used: 0.99, asks: 2},
		{what: "slow", rate: 1, burst: 1, ways: make([]time.Duration, 2), callers: 5, span: 100, used: 0.99, asks: 5},
		{what: "a third gives up", rate: 20, burst: 1, ways: make([]time.Duration, 4), callers: 30, span: 60, quits: 0.33, used: 0.98, asks: 5},
		{what: "near and far", rate: 50, burst: 1, ways: []time.Duration{50 * time.Microsecond, 25 * time.Millisecond}, callers: 20, span: 20, used: 0.97, asks: 3},
		{what: "fast", rate: 2000, burst: 100, ways: []time.Duration{500 * time.Microsecond, time.Millisecond}, callers: 100, span: 1, bears: 10 * time.Millisecond, used: 0.97, asks: 1},
		{what: "50 workers", rate: 20, burst: 1, ways: make([]time.Duration, 5), callers: 10, span: 20, used: 0.99, asks: 3},
	} {
		if c.what == "50 workers" && os.Getenv("FLEETPACE_LONG") != "" {
			c.span = 3600
		}
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.span = shorter(c.span)
				b := newBubble(t)
				judge := strict(c.rate, c.burst)
				judge.bears += c.bears
				var groups []*sync.WaitGroup
				for _, way := range c.ways {
					p := b.process(way)
					groups = append(groups, p.closed(c.callers, seconds(c.span), one(p.paced("", c.rate, c.burst)), judge, c.quits))
				}
				time.Sleep(seconds(c.span))
				calls := judge.made()
				for _, g := range groups {
					g.Wait()
				}
				used, asks := float64(calls)/(c.rate*c.span), float64(b.asks.Load())/float64(judge.calls)
				t.Logf("used %.4f, refused %d, %.2f script calls per turn, %d lapsed", used, judge.refused, asks, b.seen[engine.Lapsed].Load())
				require.Zero(t, judge.refused, judge.worst)
				require.GreaterOrEqual(t, used, c.used)
				require.LessOrEqual(t, asks, c.asks)
			})
		})
	}
}
