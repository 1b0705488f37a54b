package reserve

import (
	"context"
	"time"

	"github.com/fleetpace/fleetpace/internal/meter"
)

// SetLimit changes the limit of the whole fleet until the expiry is over, or, with an expiry of 0,
// until it is set again or reset. It overrules the limits that the processes were made with:
// neither processes that start nor other versions of your program change it. It stays while nobody
// calls. When it is over, the limit of the processes is in force again, and calls that wait follow.
//
// Calls that wait follow at once, in order. Turns that were given keep their moments, and the new
// limit begins behind them: so it takes effect within half a second, whether it lets more through or
// less. No permit is lost, however often the limit is changed. If the provider lowers its limit, set
// the lower one half a second before. Turns that were given may be used for less long than before,
// if the new burst is smaller or comes sooner.
//
// The limit must be of the same [Kind] as that of the Limiter, and a quota must have the same
// calendar. A call that costs more than the new burst fails with [ErrExceedsBurst]. The limit that
// the Limiter was made with bounds its cost as before. The burst of a limit that warms up does
// nothing but bound costs, so it is not set.
//
// If Redis loses its data, the limit that was set is lost, too. Errors: [ErrInvalid],
// [ErrUnavailable], [ErrDenied], [ErrCorrupt], [ErrClosed], or the context's.
func (l *Limiter) SetLimit(ctx context.Context, limit Limit, expiry time.Duration) error {
	return failed("set limit", l, l.set(ctx, limit, expiry))
}

func (l *Limiter) set(ctx context.Context, limit Limit, expiry time.Duration) error {
	if err := limit.check(); err != nil {
		return err
	}
	own := l.core.cfg.Limit
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
	return l.changed(ctx, l.core.asker.Set(ctx, l.limit, limit.terms(), expiry))
}

// ResetLimit ends what [Limiter.SetLimit] began. Where no limit is set it changes nothing. Errors
// are those of [Limiter.SetLimit].
func (l *Limiter) ResetLimit(ctx context.Context) error {
	err := l.check(ctx, 1)
	if err == nil {
		err = l.changed(ctx, l.core.asker.Reset(ctx, l.limit))
	}
	return failed("reset limit", l, err)
}

// changed counts a limit that was set or reset, and returns the error for the caller.
func (l *Limiter) changed(ctx context.Context, err error) error {
	if err == nil {
		l.core.name.Meter.Add(meter.Changes, 1)
	}
	return l.core.why(ctx, err)
}
