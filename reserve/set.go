package reserve

import (
	"context"
	"time"

	"github.com/fleetpace/fleetpace/internal/meter"
)

// SetLimit changes the limit of the whole fleet: for so long, or with an expiry of 0 until
// it is set again. It stands above what the processes were made with, so that versions of
// a fleet with other limits, or processes that start, do not change it; and it stays while
// nobody calls. All turns follow at once, in order, also those that were given already, as
// with [Limiter.Pause]. When the expiry is over, the limit of the processes is in force
// again.
//
// The limit must be of the same [Kind] as that of the Limiter, and a quota have the same
// calendar. A call that costs more than the new burst fails with [ErrExceedsBurst]; the
// limit that the Limiter was made with bounds its cost as before. Of a limit that warms up,
// the burst does nothing else, so it is not set.
//
// If Redis loses its data, the limit that was set is lost, too. Errors: [ErrInvalid],
// [ErrUnavailable], [ErrCorrupt], [ErrClosed].
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

// ResetLimit ends what [Limiter.SetLimit] began. Where no limit is set it changes nothing.
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
