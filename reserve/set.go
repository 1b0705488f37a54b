package reserve

import (
	"context"
	"time"

	"github.com/fleetpace/fleetpace/internal/meter"
)

// SetLimit overrides the limit of the whole fleet until the expiry is over, or, with an expiry of
// 0, until it is reset or set again. It takes precedence over the configured limits, also of
// processes that start later and of other versions of your program. It stays while nobody calls.
// After it ends, the configured limit is in force again.
//
// Waiting calls follow at once, in order. Granted turns keep their moments, and the new limit
// begins after them. So it takes effect within half a second, whether it is faster or slower. No
// permit is lost, however often the limit changes. If the provider lowers its limit, set the lower
// limit half a second before. Granted turns may be usable for a shorter time than before, if the
// new burst is smaller or refills faster.
//
// The limit must have the same [Kind] as the Limiter's, and a quota must have the same calendar. A
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
