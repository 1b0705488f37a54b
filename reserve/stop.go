package reserve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/internal/engine"
	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/internal/meter"
	"github.com/fleetpace/fleetpace/internal/wire"
)

const (
	probeEvery = 5 * time.Minute
	stopFor    = 24 * time.Hour // how long a stop without a known end lasts, unless it is renewed
)

// Exhausted is an [ErrExhausted] with its details, for errors.As.
type Exhausted struct {
	Scope  string    // the limit that is stopped: its group, name and key, as far as it has them, with slashes between them
	Reason string    // as it was given to Stop
	Until  time.Time // when the provider serves calls again; zero: not known
	of     string    // what the command fleetpace resume takes to end a stop of several limits; empty: the Scope
}

func (e *Exhausted) Error() string {
	ends := "the end is not known; this ends the stop"
	if !e.Until.IsZero() {
		ends = "until " + e.Until.Format(time.RFC3339) + "; this ends the stop earlier"
	}
	return fmt.Sprintf("%v: %q: %s; %s: fleetpace resume %s", ErrExhausted, e.Scope, e.Reason, ends, cmp.Or(e.of, e.Scope))
}

// Unwrap returns [ErrExhausted].
func (e *Exhausted) Unwrap() error { return ErrExhausted }

func exhausted(group string) func(*wire.Limit, *wire.Stopped) error {
	return func(l *wire.Limit, s *wire.Stopped) error {
		return &Exhausted{inGroup(group, l.String()), s.Reason, s.Until, strings.Join(together(group, l, s.Spread), " ")}
	}
}

// together returns the group and the key that the command fleetpace resume takes to end a stop of several limits as a whole.
// It returns nil for a stop of one limit, or of several keys without a group.
func together(group string, l *wire.Limit, spread wire.Spread) []string {
	switch {
	case spread == wire.Alone || group == "":
		return nil
	case spread == wire.OfKey && l.Key != "" && l.Key[0] != '-': // the command would take that for a flag
		return []string{group, l.Key}
	}
	return []string{group}
}

// undoStop is the command that ends a stop.
func undoStop(group string, l *wire.Limit, spread wire.Spread) string {
	return "fleetpace resume " + cmp.Or(strings.Join(together(group, l, spread), " "), inGroup(group, l.String()))
}

// Stop stops the limit for the whole fleet, because what the provider sells is used up: the credit of the
// account, a monthly cap, the quota of a day. Waiting calls of all processes fail within a second with
// [ErrExhausted], and later calls fail at once, until the moment that the provider names. Calls of
// [Limiter.Staying] keep their places instead. [Limiter.Resume] ends a stop early.
//
// A zero until means that nobody knows the end. Then one call of the whole fleet may probe every five
// minutes: an Acquire that would fail returns a Reservation with [Reservation.Probes]. Only Acquire and
// [Joint.Ask] probe; Wait, Allow and Try fail. If the request succeeds, call [Reservation.Served]; otherwise call
// Stop again. After about a day without another Stop, calls go on.
//
// A stop is a pause: see [Limiter.Pause]. Processes of earlier versions wait. A key of [Limiter.For] is
// stopped alone. To stop an account, stop a limit that all of its calls need. If Redis loses its data, the
// stop is lost. [Config.MaxPause] does not shorten a stop, and a moment in the past changes nothing. Errors are
// those of Pause.
func (l *Limiter) Stop(ctx context.Context, until time.Time, reason string) error {
	return l.joint().Stop(ctx, until, reason)
}

// Stop is [Limiter.Stop] for all limits.
func (j *Joint) Stop(ctx context.Context, until time.Time, reason string) error {
	return failed("stop", j, j.stop(ctx, until, shortened(reason)))
}

func (j *Joint) stop(ctx context.Context, until time.Time, reason string) error {
	if err := j.ready(ctx); err != nil {
		return err
	}
	lasts, every := stopFor, probeEvery
	if !until.IsZero() {
		if lasts = time.Until(until); lasts <= 0 {
			return nil
		}
		lasts = fitting(lasts)
		every = fitting(lasts + probeEvery) // nobody probes before
	}
	err := j.process().Stop(ctx, j.all(), lasts, until, reason, every)
	if fault.Away(err) {
		j.process().Still(j.all(), time.Now().Add(lasts))
	}
	if err != nil {
		return j.shared().why(ctx, err)
	}
	for _, l := range j.limits {
		l.core.name.Meter.Add(meter.Stops, 1)
		undo := undoStop(l.Group(), l.limit, wire.SpreadOf(j.all()))
		l.core.cfg.Logger.Warn("fleetpace: stopped", "limit", inGroup(l.Group(), l.String()), "undo", undo, "until", untilText(until), "reason", reason)
	}
	return nil
}

// inGroup is a limit as the command fleetpace takes it: behind its group, if it has one.
func inGroup(group, limit string) string {
	if group == "" {
		return limit
	}
	return group + "/" + limit
}

func untilText(until time.Time) string {
	if until.IsZero() {
		return "not known"
	}
	return until.Format(time.RFC3339)
}

// ServedSince reports whether a stop that this process knew of has ended since a moment. Then the refusal of a request
// that was sent before is no reason for another stop. It asks Redis only if the process knows of a
// stop. The moment is one of the local clock. If Redis does not answer, the process goes by what it knows.
func (l *Limiter) ServedSince(ctx context.Context, moment time.Time) bool {
	if l.limit == nil { // its key is not valid
		return false
	}
	if l.limit.Stopped() != nil {
		_, _ = l.State(ctx) // its reply says whether the limit is still stopped
	}
	return l.limit.ServedSince(moment)
}

// Served says that the provider has served a call that [Reservation.Probes] a stop. It ends the stops that the call
// probes; a limit that was stopped again since, and plain pauses, stay. For other calls it does nothing. Errors are
// those of [Limiter.Pause].
func (r *Reservation) Served(ctx context.Context) error {
	if !r.Probes() {
		return nil
	}
	return r.joint.Served(ctx, r.stops)
}

// Served is [Reservation.Served] for a call whose Reservation is gone, such as that of another process, with its
// [Reservation.Stops].
func (j *Joint) Served(ctx context.Context, stops []int64) error {
	err := j.ready(ctx)
	if err == nil && len(stops) != len(j.limits) {
		err = invalid("stops", "must be those of the call, one for each limit, got %d", len(stops))
	}
	if err == nil {
		err = j.shared().why(ctx, j.process().Resume(ctx, j.all(), stops...))
	}
	return failed("served", j, err)
}

// sure bounds a forecast at a stop: it may end early. If nobody knows its end, a call may probe it every five minutes.
func (l *Limiter) sure(wait time.Duration) time.Duration {
	switch s := l.limit.Stopped(); {
	case s == nil:
		return wait
	case s.Until.IsZero():
		return min(wait, probeEvery)
	}
	return min(wait, stopFor)
}

func (j *Joint) sure(wait time.Duration) time.Duration {
	for _, l := range j.limits {
		wait = l.sure(wait)
	}
	return wait
}

// Staying returns the same limit for calls that keep their places while the limit is stopped: see [Limiter.Stop].
func (l *Limiter) Staying() *Limiter {
	of := *l
	of.stays = true
	return &of
}

// Staying is [Limiter.Staying] for all limits of the Joint.
func (j *Joint) Staying() *Joint { return j.each((*Limiter).Staying) }

// Leaving returns the same limits for calls of [Joint.Ask] whose callers wait for them. While a limit is stopped, such
// a call fails with [ErrExhausted] and gives up its place, as a call without an ID does. Otherwise it keeps its place.
func (j *Joint) Leaving() *Joint { return &Joint{j.limits, true} }

// Stopped returns the [Exhausted] of the first limit that is stopped, or nil. It asks this process, which knows of a
// stop for as long as its calls wait, and after each call.
func (j *Joint) Stopped() error {
	for _, l := range j.limits {
		if s := l.limit.Stopped(); s != nil {
			return exhausted(l.Group())(l.limit, s)
		}
	}
	return nil
}

// Probes reports whether the call probes a stop: see [Limiter.Stop]. It has its turn although the limit is stopped,
// holds no slots, and its cost does not count.
func (r *Reservation) Probes() bool { return r.stops != nil }

// Stops names the stops that the call probes, for [Joint.Served]: one number for each limit. It is nil for other calls.
func (r *Reservation) Stops() []int64 { return r.stops }

// Probe returns a Reservation whose call probes a stop: see [Reservation.Probes]. It returns nil if the call may not
// probe, or if the process knows of no stop. It does not queue. [Joint.Acquire] and [Joint.Ask] do it for their calls.
func (j *Joint) Probe(ctx context.Context, costs ...int) *Reservation {
	need, err := j.need(ctx, costs)
	if err != nil {
		return nil
	}
	return j.probe(ctx, need)
}

// probe returns a Reservation for a call that may probe the stop of its limits, or nil.
func (j *Joint) probe(ctx context.Context, need engine.Need) *Reservation {
	now, due := time.Now(), false
	for _, l := range j.limits {
		if s := l.limit.Stopped(); s != nil {
			in := l.limit.ProbesIn(s, now)
			if in > 0 && in <= probeEvery || s.Until.After(now) {
				return nil
			}
			due = true
		}
	}
	if !due {
		return nil
	}
	stops, err := j.process().Probe(ctx, j.all(), probeEvery)
	if err != nil || stops == nil {
		return nil
	}
	return &Reservation{joint: j, call: j.process().Prober(need), stops: stops}
}

// probed returns a Reservation for a call that a stop has ended, if the call may probe that stop.
func (j *Joint) probed(ctx context.Context, need engine.Need, err error) (*Reservation, error) {
	if errors.Is(err, ErrExhausted) {
		if r := j.probe(ctx, need); r != nil {
			return r, nil
		}
	}
	return nil, err
}

// waitStaying is wait for a call that stays while a limit is stopped. From time to time it may probe.
func (r *Reservation) waitStaying(ctx context.Context) (probes *Reservation, err error) {
	for {
		some, cancel := context.WithTimeout(ctx, probeEvery)
		err := r.wait(some, 0)
		cancel()
		if err == nil || ctx.Err() != nil || some.Err() == nil {
			return nil, err
		}
		if probes = r.joint.probe(ctx, r.call.Need); probes != nil {
			return probes, nil
		}
	}
}

// pausedFor fills in why the limit is paused, and whether that is a stop.
func (s *State) pausedFor(group string, l *wire.Limit, reason string) {
	s.PauseReason = reason
	if stop := wire.StoppedOf(reason); stop != nil {
		s.PauseReason = strings.TrimSpace("hard stop: " + stop.Reason)
		s.Stopped, s.StoppedUntil, s.StoppedTogether = true, stop.Until, together(group, l, stop.Spread)
	}
}
