// Package provider is the strict provider: the referee that plays the
// rate-limited third-party API in tests, examples and benchmarks. It judges
// each call at the moment it arrives, keeps the history, and can say how hard
// it was pressed in its worst window.
//
// It is a referee, so wrong use (a rule without a rate, a clock that runs
// backwards in a simulated history) panics: a verdict on nonsense would be
// worse than a failed test.
package provider

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// Never is the retryAfter of a call that costs more than a rule ever allows:
// no wait would help.
const Never = time.Duration(math.MaxInt64)

// Call is one call as it arrived.
type Call struct {
	At      time.Time
	N       int // permits that it cost
	Refused bool
}

// Provider judges calls by all of its rules. A call that any rule refuses is
// refused and consumes nothing in any of them. It remembers every call, so its
// memory grows with the history. Make one with New; it is safe for concurrent
// use.
type Provider struct {
	mu      sync.Mutex
	rules   []Rule
	states  []state // one per rule, made at the first call
	first   time.Time
	last    time.Duration // since first
	history []Call
}

// New returns a provider with full buckets and empty windows. Without rules it
// accepts everything and only keeps the history.
func New(rules ...Rule) *Provider {
	for i, r := range rules {
		if r.start == nil {
			panic(fmt.Sprintf("provider: rule %d is empty: use TokenBucket, RollingWindow or FixedWindow", i))
		}
	}
	return &Provider{rules: slices.Clone(rules)}
}

// Judge judges a call that costs n permits (n >= 1) at time.Now(). When it is
// refused, the same call would be accepted after retryAfter if nobody else
// called until then.
func (p *Provider) Judge(n int) (ok bool, retryAfter time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// The clock is read under the lock, so calls are judged in the order of
	// their times.
	return p.judge(time.Now(), n)
}

// JudgeAt is Judge for simulated histories. A t before that of the previous
// call panics, so do not mix it with Judge.
func (p *Provider) JudgeAt(t time.Time, n int) (ok bool, retryAfter time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.judge(t, n)
}

func (p *Provider) judge(t time.Time, n int) (bool, time.Duration) {
	if n < 1 {
		panic(fmt.Sprintf("provider: a call costs %d permits: want at least 1", n))
	}
	if p.states == nil {
		p.first = t
		p.states = make([]state, len(p.rules))
		for i, r := range p.rules {
			p.states[i] = r.start(t)
		}
	}
	at := t.Sub(p.first)
	if at < p.last {
		panic(fmt.Sprintf("provider: call at %v is %v before the previous one: judge calls in order of time", t, p.last-at))
	}
	p.last = at

	var wait time.Duration
	for _, s := range p.states {
		wait = max(wait, s.wait(at, n))
	}
	if wait == 0 {
		for _, s := range p.states {
			s.take(at, n)
		}
	}
	p.history = append(p.history, Call{At: t, N: n, Refused: wait > 0})
	return wait == 0, wait
}

// History returns a copy of all calls so far, in order of arrival.
func (p *Provider) History() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.history)
}

// WorstWindow is the largest number of permits, of accepted and refused calls
// alike, that arrived in any rolling window of length w. Two calls that are
// exactly w apart are not in one window. A w of zero or less gives 0.
func (p *Provider) WorstWindow(w time.Duration) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w <= 0 {
		return 0
	}
	worst, sum, oldest := 0, 0, 0
	for _, c := range p.history {
		sum += c.N
		for c.At.Sub(p.history[oldest].At) >= w {
			sum -= p.history[oldest].N
			oldest++
		}
		worst = max(worst, sum)
	}
	return worst
}
