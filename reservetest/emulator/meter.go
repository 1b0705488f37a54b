package emulator

import (
	"math"
	"slices"
	"time"
)

// Limit is how much of one limit an account has used. Read it as the last call ends: Most grows with the time.
type Limit struct {
	Name    string
	Used    float64 // units of admitted calls, as the provider counts them
	Most    float64 // units that could have been used since the first call, a full bucket included
	Refused int     // calls that this limit refused
	Overrun float64 // the most units by which late counts exceeded the limit
	// Tens are the units of each 10 s since the first call. Units that come back count below 0 when they do.
	Tens []float64

	begun time.Time
}

const tens = 10 * time.Second

// note notes used units.
func (l *Limit) note(now time.Time, n float64) {
	if l.begun.IsZero() {
		l.begun = now
	}
	l.Used += n
	for len(l.Tens) <= int(now.Sub(l.begun)/tens) {
		l.Tens = append(l.Tens, 0)
	}
	l.Tens[len(l.Tens)-1] += n
}

// copied returns a copy for a report.
func (l Limit) copied() Limit {
	l.Tens = slices.Clone(l.Tens)
	return l
}

// meter counts one limit. All of its methods take the provider's time, which must not run backwards.
type meter interface {
	// wait returns how long a call of n units has to wait: 0 means not at all, and never means for ever.
	wait(now time.Time, n float64) time.Duration
	// take counts n units, also if they do not fit. Below 0 they come back.
	take(now time.Time, n float64)
	// left returns the units at hand, and the time until all are.
	left(now time.Time) (units float64, full time.Duration)
	// size is how many units the limit has in a period.
	size() float64
	refuse()
	report(now time.Time) Limit
}

// never is the wait of a call that no wait helps.
const never = time.Duration(math.MaxInt64)

// least makes up for the rounding of floating-point levels.
const least = 1e-6

// bucket is a token bucket that is filled continuously. Its level falls below 0 when a call turns out to have
// cost more than its estimate.
type bucket struct {
	Limit
	rate  float64 // units per second
	holds float64
	level float64
	at    time.Time
	first time.Time
	gone  float64 // what could have been used before the rate last changed
}

// perMinute returns a full bucket of n units per minute that holds as many as come in this time.
func perMinute(name string, n int, holds time.Duration) *bucket {
	capacity := float64(n) * holds.Minutes()
	return &bucket{Limit: Limit{Name: name}, rate: float64(n) / 60, holds: capacity, level: capacity}
}

func (b *bucket) move(now time.Time) {
	if b.first.IsZero() {
		b.first, b.at = now, now
	}
	b.level, b.at = min(b.holds, b.level+b.rate*now.Sub(b.at).Seconds()), now
}

func (b *bucket) wait(now time.Time, n float64) time.Duration {
	b.move(now)
	switch {
	case n > b.holds+least:
		return never
	case n <= b.level+least:
		return 0
	}
	return time.Duration(math.Ceil((n - b.level) / b.rate * float64(time.Second)))
}

func (b *bucket) take(now time.Time, n float64) {
	b.move(now)
	b.level = min(b.holds, b.level-n)
	b.note(now, n)
	b.Overrun = max(b.Overrun, -b.level)
}

func (b *bucket) left(now time.Time) (float64, time.Duration) {
	b.move(now)
	return b.level, time.Duration((b.holds - b.level) / b.rate * float64(time.Second))
}

func (b *bucket) size() float64 { return b.rate * 60 }
func (b *bucket) refuse()       { b.Refused++ }

// change sets another rate and size from now on.
func (b *bucket) change(now time.Time, rate, holds float64) {
	b.move(now)
	b.gone += b.rate * now.Sub(b.first).Seconds()
	b.first = now
	b.rate, b.holds, b.level = rate, holds, min(b.level, holds)
}

func (b *bucket) report(now time.Time) Limit {
	b.move(now)
	l := b.copied()
	l.Most = b.holds + b.gone + b.rate*now.Sub(b.first).Seconds()
	return l
}

// window allows most units in each window. The windows begin at multiples of their length, or at midnight of
// a zone.
type window struct {
	Limit
	most   float64
	length time.Duration
	zone   *time.Location // nil: windows begin at multiples of the length
	index  time.Time      // when the window of count began
	count  float64
	number float64 // windows so far, without this one
}

func (w *window) move(now time.Time) {
	begin := now.Truncate(w.length)
	if w.zone != nil {
		y, m, d := now.In(w.zone).Date()
		begin = time.Date(y, m, d, 0, 0, 0, 0, w.zone)
	}
	if begin.Equal(w.index) {
		return
	}
	if !w.index.IsZero() {
		w.number += max(1, math.Round(begin.Sub(w.index).Hours()/w.length.Hours()))
	}
	w.index, w.count = begin, 0
}

func (w *window) end() time.Time {
	if w.zone == nil {
		return w.index.Add(w.length)
	}
	y, m, d := w.index.In(w.zone).Date()
	return time.Date(y, m, d+1, 0, 0, 0, 0, w.zone)
}

func (w *window) wait(now time.Time, n float64) time.Duration {
	w.move(now)
	switch {
	case n > w.most:
		return never
	case w.count+n <= w.most:
		return 0
	}
	return w.end().Sub(now)
}

func (w *window) take(now time.Time, n float64) {
	w.move(now)
	w.count += n
	w.note(now, n)
	w.Overrun = max(w.Overrun, w.count-w.most)
}

func (w *window) left(now time.Time) (float64, time.Duration) {
	w.move(now)
	return w.most - w.count, w.end().Sub(now)
}

func (w *window) size() float64 { return w.most }
func (w *window) refuse()       { w.Refused++ }

func (w *window) report(now time.Time) Limit {
	w.move(now)
	l := w.copied()
	l.Most = w.most * (w.number + 1)
	return l
}

// ramp allows units in a clock's minute by what was used earlier. Some are free. More are allowed up to a factor of the
// fullest minute of so many that ended as many minutes ago.
type ramp struct {
	Limit
	free, factor float64
	minutes      int64
	used         map[int64]float64 // by minute
}

func newRamp(name string, free int, factor float64, minutes int64) *ramp {
	return &ramp{Limit: Limit{Name: name}, free: float64(free), factor: factor, minutes: minutes, used: map[int64]float64{}}
}

func minuteOf(now time.Time) int64 { return now.Unix() / 60 }

func (r *ramp) left(now time.Time) (float64, time.Duration) {
	most, minute := r.free, minuteOf(now)
	for m := minute - 2*r.minutes + 1; m <= minute-r.minutes; m++ {
		most = max(most, r.factor*r.used[m])
	}
	return most - r.used[minute], now.Truncate(time.Minute).Add(time.Minute).Sub(now)
}

func (r *ramp) wait(now time.Time, n float64) time.Duration {
	if left, next := r.left(now); n > left+least {
		return next
	}
	return 0
}

func (r *ramp) take(now time.Time, n float64) {
	r.used[minuteOf(now)] += n
	r.note(now, n)
}

func (r *ramp) size() float64          { return r.free }
func (r *ramp) refuse()                { r.Refused++ }
func (r *ramp) report(time.Time) Limit { return r.copied() }
