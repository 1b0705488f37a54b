package reserve

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/internal/meter"
	"github.com/fleetpace/fleetpace/internal/wire"
)

const maxReason = 256

// Pause grants no call of the whole fleet a turn for d, because the API asked for it, for example
// with a Retry-After header. After the pause, turns follow in the same order, at the rate. A paced
// limit then starts with one permit, however many it had stored. If several pauses overlap, the one
// that ends last counts; they do not add up. [Limiter.Resume] ends a pause early.
//
// Waiting calls of all processes are notified at once. Turns that are due before the end of the
// pause are revoked; later turns stay. Bookings learn of the pause when they ask. If the connection
// of a process has just broken, it misses the message, and makes the calls whose turns were
// granted, at most half a second early. Permits that a process took ahead are dropped.
//
// The reason is for people: [Limiter.State] and the log show up to 256 bytes of it. A d of 0 or
// less changes nothing, and a d above [Config.MaxPause] is shortened to it. Pause does not wait for
// the pause to end. It pauses this Limiter's key alone, or without [Limiter.For] only calls without a key.
//
// After an error with [ErrUnavailable], this process pauses, and the others may not know of the
// pause. Other errors: [ErrInvalid], [ErrDenied], [ErrCorrupt], [ErrClosed], or the context's.
func (l *Limiter) Pause(ctx context.Context, d time.Duration, reason string) error {
	return l.joint().Pause(ctx, d, reason)
}

// PauseKeeping is [Limiter.Pause] for APIs that ask for time, but do not empty their bucket: stored permits
// stay, and permits come meanwhile. After the pause, calls may use all of them at once. If Redis loses
// its data, the pause ends.
func (l *Limiter) PauseKeeping(ctx context.Context, d time.Duration, reason string) error {
	return l.joint().PauseKeeping(ctx, d, reason)
}

// PauseUntil is [Limiter.Pause] until a moment on the local clock, for APIs that state a time in a
// header. A moment in the past changes nothing.
func (l *Limiter) PauseUntil(ctx context.Context, until time.Time, reason string) error {
	return l.Pause(ctx, time.Until(until), reason)
}

// Resume ends a pause. The turns of waiting calls move forward by the remaining time, in order.
// Turns that were granted for the end of the pause stay, and the next turns follow them within a
// second. Without a pause it changes nothing. Errors are those of [Limiter.Pause].
func (l *Limiter) Resume(ctx context.Context) error { return l.joint().Resume(ctx) }

// Pause is [Limiter.Pause] for all limits, each up to its own Config.MaxPause.
func (j *Joint) Pause(ctx context.Context, d time.Duration, reason string) error {
	return failed("pause", j, j.pause(ctx, d, shortened(reason), false))
}

// PauseKeeping is [Limiter.PauseKeeping] for all limits, each up to its own Config.MaxPause.
func (j *Joint) PauseKeeping(ctx context.Context, d time.Duration, reason string) error {
	return failed("pause", j, j.pause(ctx, d, shortened(reason), true))
}

// PauseUntil is [Limiter.PauseUntil] for all limits.
func (j *Joint) PauseUntil(ctx context.Context, until time.Time, reason string) error {
	return j.Pause(ctx, time.Until(until), reason)
}

// Resume is [Limiter.Resume] for all limits.
func (j *Joint) Resume(ctx context.Context) error {
	err := j.ready(ctx)
	if err == nil {
		err = j.shared().why(ctx, j.process().Resume(ctx, j.all()))
	}
	return failed("resume", j, err)
}

func (j *Joint) pause(ctx context.Context, d time.Duration, reason string, keeps bool) error {
	if err := j.ready(ctx); err != nil || d <= 0 {
		return err
	}
	var lengths []time.Duration // usually one
	alike := map[time.Duration][]*wire.Limit{}
	for _, l := range j.limits {
		length := l.pauseOf(d, reason)
		if alike[length] == nil {
			lengths = append(lengths, length)
		}
		alike[length] = append(alike[length], l.limit)
	}
	var first error // if one limit cannot be paused, the others still are
	for _, length := range lengths {
		until, err := time.Now().Add(length), first
		if !fault.Away(first) { // the others would not reach Redis, either
			err = j.process().Pause(ctx, alike[length], length, reason, keeps)
		}
		if fault.Away(err) {
			j.process().Still(alike[length], until)
		}
		if first == nil {
			first = err
		}
	}
	if first != nil {
		return j.shared().why(ctx, first)
	}
	for _, l := range j.limits {
		l.core.name.Meter.Add(meter.Pauses, 1)
		l.core.cfg.Logger.Info("fleetpace: paused", "limit", inGroup(l.Group(), l.String()), "pause", l.cut(d), "reason", reason)
	}
	return nil
}

// pauseOf returns the real length of a pause.
func (l *Limiter) pauseOf(d time.Duration, reason string) time.Duration {
	length := l.cut(d)
	if length < d {
		l.core.cfg.Logger.Warn("fleetpace: a pause is cut to Config.MaxPause",
			"limit", inGroup(l.Group(), l.String()), "pause", d, "max", length, "reason", reason)
	}
	return fitting(length)
}

func (l *Limiter) cut(d time.Duration) time.Duration {
	if most := l.core.cfg.MaxPause; most > 0 {
		return min(d, most)
	}
	return d
}

// fitting returns a time above 0 that the scripts accept: a microsecond or more.
func fitting(d time.Duration) time.Duration { return min(max(d, time.Microsecond), longest) }

// shortened returns a text that the script accepts: what an API says in a header may be long.
func shortened(text string) string {
	text = strings.ToValidUTF8(text, "?")
	for len(text) > maxReason {
		_, size := utf8.DecodeLastRuneInString(text[:maxReason+1])
		text = text[:maxReason+1-size]
	}
	return text
}

// SetLimit overrides the limit of the whole fleet until the expiry is over, or, with an expiry of
// 0, until it is reset or set again. It takes precedence over the configured limits, also of
// processes that start later and of other versions of your program. It stays while nobody calls.
// After it ends, the configured limit is in force again.
//
// Waiting calls follow at once, in order. Granted turns keep their moments, and the new limit
// begins after them. So it takes effect within half a second, whether it is faster or slower. No
// turn is lost, however often the limit changes. If the provider lowers its limit, set the lower
// limit half a second before. Granted turns may be usable for a shorter time than before, if the
// new burst is smaller or refills faster.
//
// The limit must have the same [Kind] as [Limiter.Limit], and a quota must have the same calendar. A plan of
// another kind ends the override: see [Config.LimitOf]. A
// call that costs more than the new burst fails with [ErrExceedsBurst]. The configured limit still
// bounds the cost of calls. The burst of a limit with warm-up only bounds costs, so SetLimit does
// not change it.
//
// If Redis loses its data, the override is lost, too. Errors: [ErrInvalid], [ErrUnavailable],
// [ErrDenied], [ErrCorrupt], [ErrClosed], or the context's.
func (l *Limiter) SetLimit(ctx context.Context, limit Limit, expiry time.Duration) error {
	return failed("set limit", l, l.set(ctx, limit, expiry))
}

func (l *Limiter) set(ctx context.Context, limit Limit, expiry time.Duration) error {
	if err := limit.check(); err != nil {
		return err
	}
	own := l.Limit()
	switch {
	case limit.kind != own.kind:
		return invalid("Limit", "must be of kind %v as that of the Limiter, got %q of kind %v", own.kind, limit, limit.kind)
	case limit.unit != own.unit || limit.zone != own.zone:
		return invalid("Limit", "must have the same calendar as that of the Limiter, %q, got %q", own, limit)
	case expiry < 0:
		return invalid("expiry", "must be 0, for none, or above, got %v", expiry)
	case expiry > 0:
		expiry = fitting(expiry)
	}
	if err := l.check(ctx, 1); err != nil {
		return err
	}
	return l.changed(ctx, l.core.process.Set(ctx, l.limit, limit.terms(), expiry))
}

// ResetLimit removes the override of [Limiter.SetLimit]. Without an override it changes nothing.
// Errors are those of [Limiter.SetLimit].
func (l *Limiter) ResetLimit(ctx context.Context) error {
	err := l.check(ctx, 1)
	if err == nil {
		err = l.changed(ctx, l.core.process.Reset(ctx, l.limit))
	}
	return failed("reset limit", l, err)
}

// changed counts an override or a reset, and returns the error for the caller.
func (l *Limiter) changed(ctx context.Context, err error) error {
	if err == nil {
		l.core.name.Meter.Add(meter.Changes, 1)
	}
	return l.core.why(ctx, err)
}
