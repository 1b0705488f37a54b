package reserve

import (
	"context"
	"strconv"
	"time"

	"github.com/fleetpace/fleetpace/lua"
)

// SetLimit changes the limit of the whole fleet: for so long, or with an expiry of 0 until
// it is set again. It stands above what the processes were made with, so that versions of
// a fleet with other limits, or processes that start, do not change it; and it stays while
// nobody calls. All turns follow at once, in order, also those that were fixed already, as
// with [Limiter.Pause]. When the expiry is over, the limit of the processes is in force
// again.
//
// A call that costs more than the new burst fails with [ErrExceedsBurst], unless it waits
// already; the limit that the Limiter was made with bounds its cost as before. While a
// limit is set, calls take their turns one round trip after the other and not in rows, so
// that 10,000 and more per second and process cost more.
//
// If Redis loses its data, the limit that was set is lost, too. Errors: [ErrInvalid],
// [ErrUnavailable], [ErrCorrupt], [ErrClosed].
func (l *Limiter) SetLimit(ctx context.Context, limit Limit, expiry time.Duration) error {
	err := limit.Validate()
	if err == nil && expiry < 0 {
		err = invalid("expiry", "must be 0, for none, or above, got %v", expiry)
	}
	if err == nil {
		err = l.set(ctx, limit.micros(), limit.MaxBurst(), expiry)
	}
	return l.fail("set limit", err)
}

// ResetLimit ends what [Limiter.SetLimit] began. Where no limit is set it changes nothing.
func (l *Limiter) ResetLimit(ctx context.Context) error {
	return l.fail("reset limit", l.set(ctx, 0, 1, 0))
}

func (l *Limiter) set(ctx context.Context, interval float64, burst int, expiry time.Duration) error {
	line, err := l.enter(ctx, 1)
	if err != nil {
		return err
	}
	defer l.core.leave(line)
	return line.move(ctx, func(who caller) (answers, error) {
		args := append(l.core.args(who, 4), strconv.FormatFloat(interval, 'f', -1, 64), burst,
			expiry.Microseconds(), l.core.channel())
		return l.core.ask(ctx, lua.Set, line.keys, args, 0)
	})
}
