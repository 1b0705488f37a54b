package reserve

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// Refill makes all permits of the limit available at once, for the whole fleet: for example when the API
// has reset its count, or support forgives a customer. Waiting calls get their turns at once, in order.
// Granted turns stay. A pause or an override goes on. A quota is refilled for its current window. A
// limit with warm-up stores no permits, so only its next call comes earlier.
//
// Errors: [ErrInvalid] for slots, which [Limiter.Free] frees; [ErrUnavailable], [ErrDenied],
// [ErrCorrupt], [ErrClosed], or the context's.
func (l *Limiter) Refill(ctx context.Context) error {
	_, err := l.level(ctx, -1, wire.RaisesAll)
	return failed("refill", l, err)
}

// Told takes in how many permits the API says are left, for example in a header of its response or in
// Shopify's currentlyAvailable. If Redis has more left, the whole fleet continues with that many, so calls
// of other programs count, too. It does not make more permits available at once. If the API says for a
// minute that at least a tenth of the burst more is left, each process adds its part of the difference to
// the stored permits.
//
// Take off what the API does not know yet: the costs of calls that are on their way to it. Granted turns that
// are not due yet are taken off by themselves. Told asks Redis only if the process knows of more permits than
// that, or if calls with settled costs wait, so it may follow each response. Numbers below 0 and NaN
// change nothing, as some APIs send them without a meaning.
//
// Told is for paced limits, quotas and rolling limits. Errors are those of [Limiter.Refill].
func (l *Limiter) Told(ctx context.Context, remaining float64) error {
	return failed("told", l, l.told(ctx, remaining))
}

// trust is for how long an API has to say that more is left. trustPart is how much more that is, as a part of
// the burst.
const (
	trust     = time.Minute
	trustPart = 0.1
)

func (l *Limiter) told(ctx context.Context, remaining float64) error {
	if kind := l.Limit().kind; kind == KindWarmingUp || kind == KindSlots {
		return invalid("limit", "must be paced, a quota or rolling, got %v: %q stores no permits", kind, l)
	}
	if err := l.usable(ctx); err != nil {
		return err
	}
	if !(remaining >= 0) || math.IsInf(remaining, 1) {
		return nil
	}
	now := time.Now()
	left, known := l.left(now)
	if !known || remaining < left || left <= 0 && l.Settles() { // only Redis knows which granted turns are not due yet
		was, err := l.level(ctx, remaining, wire.RaisesNothing)
		if err != nil {
			return err
		}
		left = max(0, float64(was))
	}
	if l.core.levels.believes(l.limit, now, remaining >= left+trustPart*float64(l.Limit().MaxBurst())) {
		_, err := l.level(ctx, remaining, wire.RaisesPart)
		return err
	}
	return nil
}

// left is how many permits are left, as far as the process knows.
func (l *Limiter) left(now time.Time) (permits float64, known bool) {
	if l.limit.Paced() {
		if !l.limit.Known() {
			return 0, false
		}
		return float64(l.limit.Stored(now, 0)), true
	}
	n, _, _, known := l.limit.Left(now)
	return float64(n), known
}

func (l *Limiter) level(ctx context.Context, permits float64, raises wire.Raises) (int64, error) {
	j := l.joint()
	if err := j.ready(ctx); err != nil {
		return 0, err
	}
	if l.core.cfg.Limit.kind == KindSlots {
		return 0, invalid("limit", "must not be slots, got %q: Free frees the slots of a call", l)
	}
	left, err := j.process().Level(ctx, j.all(), permits, raises)
	if err != nil {
		return 0, j.shared().why(ctx, err)
	}
	return left[0], nil
}

// levels is since when the API says that more is left of some limits than the fleet thinks.
type levels struct {
	mu    sync.Mutex
	since map[*wire.Limit]time.Time // guarded by mu
}

// believes notes whether more is left of a limit, and reports whether that has been so for long enough.
func (s *levels) believes(l *wire.Limit, now time.Time, more bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, ok := s.since[l]
	switch {
	case !more:
		delete(s.since, l)
	case !ok:
		if s.since == nil || len(s.since) >= remembered {
			s.since = map[*wire.Limit]time.Time{}
		}
		s.since[l] = now
	case now.Sub(since) >= trust:
		delete(s.since, l)
		return true
	}
	return false
}

// Attempt is the result of a [Limiter.Try].
type Attempt struct {
	// Granted says that the call has its turn: make it now.
	Granted bool

	// RetryAfter is how long to wait before the next attempt, by the current forecast, which does
	// not count booked calls: see [State]. At a stop it is at most a day, or 5 minutes if nobody
	// knows the end: see [Limiter.Stop]. 0 with a turn.
	RetryAfter time.Duration

	// Left is how many whole permits are left now, as far as the process knows. A limit with warm-up
	// stores none.
	Left int

	// Reset is the time until all permits are available, if no call uses any. For a rolling limit it is
	// the longest that this may take.
	Reset time.Duration
}

// Try is [Limiter.Allow] that also says what is left, or when to try again, in one round trip. It is
// TryN(ctx, 1).
func (l *Limiter) Try(ctx context.Context) (Attempt, error) { return l.TryN(ctx, 1) }

// TryN is Try for a call that costs n permits. Errors are those of [Limiter.AllowN].
func (l *Limiter) TryN(ctx context.Context, n int) (Attempt, error) {
	var a Attempt
	err := l.wait(ctx, n, true)
	wait, later := waitOf(err)
	if a.Granted = err == nil; err != nil && !later {
		return a, failed("try", l, err)
	}
	now := time.Now()
	left, _ := l.left(now)
	a.Left, a.RetryAfter = int(max(0, left)), l.sure(wait)
	if limit := l.Limit(); limit.kind == KindPaced {
		rate, burst := l.limit.Pace(now)
		a.Reset = time.Duration(max(0, burst-left) / rate * float64(time.Second))
	} else if _, _, after, known := l.limit.Left(now); known && a.Left < limit.MaxBurst() {
		a.Reset = after
	}
	return a, nil
}
