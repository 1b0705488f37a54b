package wire

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	scripts "github.com/fleetpace/fleetpace/lua"
)

// This file is the hard stop of a limit: a pause after which waiting calls fail, because what the provider sells
// is used up. Its reason in Redis is "hard stop <when a call may probe> <until when, or -><its Spread> <text>".

// Stopped is a hard stop.
type Stopped struct {
	Reason string
	Until  time.Time // zero: not known
	Spread Spread
	probe  int64 // the time of Redis from which on a call may probe
}

const unknown = "-"

// Spread says which limits a hard stop has stopped together: so many plus signs follow the moment.
type Spread int

// The spreads of a hard stop.
const (
	Alone   Spread = iota // one limit
	OfKey                 // several limits of the group, with the same key or without keys
	OfGroup               // several limits of the group, with different keys
)

// SpreadOf returns the Spread of a hard stop of limits.
func SpreadOf(limits []*Limit) Spread {
	switch {
	case len(limits) == 1:
		return Alone
	case slices.ContainsFunc(limits, func(l *Limit) bool { return l.Key != limits[0].Key }):
		return OfGroup
	}
	return OfKey
}

// Stop is Pause for a hard stop, until a moment; zero: it is not known. In each stretch of time `every`, one call of
// the fleet may probe whether the stop is over.
func Stop(ctx context.Context, c *Call, d time.Duration, until time.Time, reason string, every time.Duration) (Reply, []time.Duration, error) {
	moment := unknown
	if !until.IsZero() {
		moment = until.Add(time.Second - 1).UTC().Format(time.RFC3339) // not before: calls may probe from then on
	}
	moment += strings.Repeat("+", int(SpreadOf(c.Limits)))
	return c.pause(ctx, d, moment+" "+reason, true, every) // an empty bucket would outlast the stop where Redis loses its data
}

// NotYet is the answer for a limit whose hard stop a call may not probe now. 0: it is not stopped. A higher answer is
// when the stop ends, unless it is renewed: Resume takes it.
const NotYet = 2

// Probe asks whether a call may probe the hard stops of the limits. If it may, no other call may do so in the next
// stretch of time `every`.
func Probe(ctx context.Context, c *Call, every time.Duration) (Reply, []int64, error) {
	a := c.begin(scripts.Pause)
	a.number(0)
	a.text("")
	a.flag(false)
	a.number(every.Microseconds())
	reply, r, err := c.run(ctx, scripts.Pause)
	if err != nil {
		return reply, nil, err
	}
	return reply, r.numbers(len(c.Limits)), r.err
}

// StoppedOf reads the reason of a pause. It returns nil if the pause is no hard stop.
func StoppedOf(reason string) *Stopped {
	rest, ok := strings.CutPrefix(reason, "hard stop ")
	words := strings.SplitN(rest, " ", 3)
	if !ok || len(words) < 3 {
		return nil
	}
	probe, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		return nil
	}
	moment := strings.TrimRight(words[1], "+")
	s := &Stopped{Reason: words[2], Spread: Spread(len(words[1]) - len(moment)), probe: probe}
	if moment != unknown {
		s.Until, _ = time.Parse(time.RFC3339, moment)
	}
	return s
}

// Stopped returns the hard stop of the last reply, or nil.
func (l *Limit) Stopped() *Stopped { return l.stopped.Load() }

// ServedSince reports whether a hard stop has ended since a moment, as far as is known.
func (l *Limit) ServedSince(moment time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return moment.Before(l.served)
}

// ProbesIn returns in which time a call may probe the hard stop, as far as is known.
func (l *Limit) ProbesIn(s *Stopped, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(s.probe-l.clock(now)) * time.Microsecond
}
