// Package provider is a strict rate-limited API for tests, examples and benchmarks. It judges each
// call at the moment it arrives, keeps the history, and counts the calls of its worst window.
//
// Wrong use panics, such as a rule without a rate, or a simulated history whose clock runs backwards.
// A wrong verdict would be worse than a failed test.
package provider

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// Never is the retryAfter of a call that costs more than a rule ever allows. No wait would help.
const Never = time.Duration(math.MaxInt64)

// Call is one call as it arrived.
type Call struct {
	At      time.Time
	N       int // the permits that it cost
	Refused bool
}

// Provider judges calls by all of its rules. If any rule refuses a call, it consumes nothing of any
// rule. A Provider remembers every call, so its memory grows with the history. Make one with New;
// it is safe for concurrent use.
type Provider struct {
	mu      sync.Mutex
	rules   []Rule
	states  []state // one per rule, made at the first call
	first   time.Time
	last    time.Duration // the time of the last call, since first
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

// Judge judges a call of n permits (at least 1) at time.Now(). If the call is refused, retryAfter
// is the wait after which it would be accepted, without other calls until then.
func (p *Provider) Judge(n int) (ok bool, retryAfter time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// The clock is read under the lock, so calls are judged in the order of
	// their times.
	return p.judge(time.Now(), n)
}

// JudgeAt is Judge for simulated histories. It panics if t is before the previous call, so do not
// mix it with Judge.
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
