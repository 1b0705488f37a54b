package provider

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// The named timeline of the tables below: t0 starts on a full minute, and each
// step is 100 ms later.
var (
	t0 = time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)
	t1 = t0.Add(1 * step)
	t2 = t0.Add(2 * step)
	t3 = t0.Add(3 * step)
	t5 = t0.Add(5 * step)
	t9 = t0.Add(9 * step)
)

const step = 100 * time.Millisecond

type call struct {
	at    time.Time
	n     int
	ok    bool
	after time.Duration
}

// TestRules proves each rule's verdicts and retryAfter on one timeline.
func TestRules(t *testing.T) {
	tests := map[string]struct {
		rules []Rule
		calls []call
	}{
		"bucket, burst 1: evenly spaced": {
			rules: []Rule{TokenBucket(10, 1)},
			calls: []call{
				{t0, 1, true, 0},
				{t0, 1, false, step},
				{t1.Add(-time.Microsecond), 1, false, time.Microsecond},
				{t1, 1, true, 0},
				{t9, 1, true, 0},
				{t9, 1, false, step}, // what overflowed is gone
			},
		},
		"bucket, burst 3: starts full, refills one a step": {
			rules: []Rule{TokenBucket(10, 3)},
			calls: []call{
				{t0, 2, true, 0},
				{t0, 2, false, step},
				{t0, 1, true, 0},
				{t1, 1, true, 0},
				{t1, 3, false, 3 * step},
				{t5, 3, true, 0},
				{t5, 1, false, step}, // 4 refilled, 1 overflowed
				{t5, 4, false, Never},
			},
		},
		"bucket slower than one a second": {
			rules: []Rule{TokenBucket(0.2, 1)},
			calls: []call{
				{t0, 1, true, 0},
				{t0.Add(4 * time.Second), 1, false, time.Second},
				{t0.Add(5 * time.Second), 1, true, 0},
			},
		},
		"rolling window: a call leaves exactly one window later": {
			rules: []Rule{RollingWindow(3, 3*step)},
			calls: []call{
				{t0, 1, true, 0},
				{t1, 2, true, 0},
				{t2, 1, false, step},
				{t2, 2, false, 2 * step},
				{t2, 4, false, Never},
				{t3.Add(-1), 1, false, 1},
				{t3, 1, true, 0},
				{t3, 1, false, step},
				{t9, 3, true, 0},
				{t9, 1, false, 3 * step},
			},
		},
		"fixed window: afresh at the border": {
			rules: []Rule{FixedWindow(2, 3*step)},
			calls: []call{
				{t2, 2, true, 0}, // the first call need not be at a border
				{t2, 1, false, step},
				{t2, 3, false, Never},
				{t3.Add(-1), 1, false, 1},
				{t3, 2, true, 0},
				{t5, 1, false, step},
				{t9, 2, true, 0}, // a window without calls between
				{t9, 1, false, 3 * step},
			},
		},
		"fixed window of a minute starts on the minute": {
			rules: []Rule{FixedWindow(1, time.Minute)},
			calls: []call{
				{t0.Add(59 * time.Second), 1, true, 0},
				{t0.Add(60 * time.Second), 1, true, 0},
				{t0.Add(61 * time.Second), 1, false, 59 * time.Second},
			},
		},
		"several rules: the longest wait counts and nothing is consumed": {
			rules: []Rule{TokenBucket(10, 2), RollingWindow(2, 5*step)},
			calls: []call{
				{t0, 2, true, 0},
				{t1, 1, false, 4 * step}, // the bucket alone would accept
				{t2, 1, false, 3 * step},
				{t5, 2, true, 0}, // the refused ones took nothing from the bucket
				{t5, 1, false, 5 * step},
			},
		},
		"no rules": {
			calls: []call{{t0, 1000, true, 0}, {t0, 1000, true, 0}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := New(tt.rules...)
			refused := 0
			for i, c := range tt.calls {
				ok, after := p.JudgeAt(c.at, c.n)
				assert.Equal(t, c.ok, ok, "call %d: %+v", i, c)
				assert.Equal(t, c.after, after, "call %d: %+v", i, c)
				if !c.ok {
					refused++
				}
			}
			s := p.Summary()
			assert.Equal(t, len(tt.calls), s.Requests)
			assert.Equal(t, refused, s.Refused)
			assert.Equal(t, tt.calls[0].at, s.First)
			assert.Equal(t, tt.calls[len(tt.calls)-1].at, s.Last)
			for i, c := range p.History() {
				assert.Equal(t, Call{At: tt.calls[i].at, N: tt.calls[i].n, Refused: !tt.calls[i].ok}, c)
			}
		})
	}
}

// TestBucketIsExact proves that a bucket that was full a million permits ago is
// still right to 1e-6 permits, at rates that no binary fraction holds.
func TestBucketIsExact(t *testing.T) {
	const permits, perCall = 1_000_000, 20
	for _, tt := range []struct {
		name      string
		perSecond float64
		// due is when k permits are refilled, exactly, rounded up to a nanosecond.
		due func(k int64) time.Duration
	}{
		{"1/3 a second", 1.0 / 3, func(k int64) time.Duration { return time.Duration(k) * 3 * time.Second }},
		{"7 a second", 7, func(k int64) time.Duration { return time.Duration((k*1e9 + 6) / 7) }},
		{"600 a minute", 10, func(k int64) time.Duration { return time.Duration(k) * step }},
		{"1000000 a second", 1e6, func(k int64) time.Duration { return time.Duration(k) * time.Microsecond }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// Worth twice the slack, or the one nanosecond that is more at high rates.
			early := max(1, time.Duration(2*slack/tt.perSecond*1e9))
			p := New(TokenBucket(tt.perSecond, 2*perCall))
			p.JudgeAt(t0, 2*perCall) // from now on it is never full
			for k := int64(perCall); k <= permits; k += perCall {
				if k == permits {
					ok, _ := p.JudgeAt(t0.Add(tt.due(k)-early), perCall)
					assert.False(t, ok, "%v early", early)
				}
				if ok, after := p.JudgeAt(t0.Add(tt.due(k)), perCall); !ok {
					t.Fatalf("permit %d refused, %v early", k, after)
				}
			}
		})
	}
}

// TestSlackDoesNotAddUp proves that the slack cannot be used to go faster than
// the rate: each call comes 0.4 of the slack early, and soon one is refused.
func TestSlackDoesNotAddUp(t *testing.T) {
	p := New(TokenBucket(1, 1))
	every := time.Second - time.Duration(slack*0.4e9)
	refusedAt := -1
	for k := range 10 {
		if ok, _ := p.JudgeAt(t0.Add(time.Duration(k)*every), 1); !ok {
			refusedAt = k
			break
		}
	}
	assert.Equal(t, 3, refusedAt)
}
