package reserve

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/engine"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// A Limiter gives every call of a whole fleet its turn. All processes that use the same Redis,
// prefix and name share one queue, and together make no more calls than the [Limit] allows.
//
// A golang.org/x/time/rate.Limiter keeps a token bucket in memory, a Limiter keeps one in Redis.
// Wait and Allow mean the same in both. Reserve only joins the queue here: [Reservation.Delay] is a forecast until
// [Reservation.Granted]. Most callers want [Limiter.Wait].
//
// Waiting calls get their turns first come, first served, unless they name flows or are urgent. A
// process that has died, or does not answer, blocks the others for a moment only.
//
// The zero Limiter is not usable; make one with [New] and keep it for as long as the process runs.
// It is safe for concurrent use.
type Limiter struct {
	core  *core
	key   string
	limit *wire.Limit // nil if the key is invalid
	flow  wire.Flow
	stays bool  // see Staying
	err   error // what is wrong with the key or the flow
}

// New makes a Limiter on any go-redis client: single, Sentinel or Cluster. A Ring is refused,
// because it loses the state when a shard fails. New sends nothing to Redis. Close the Limiter
// before its client. The error is an [ErrInvalid] that names the field.
func New(client redis.UniversalClient, config Config) (*Limiter, error) {
	if err := config.Validate(client); err != nil {
		return nil, err
	}
	c := newCore(client, config.withDefaults())
	return &Limiter{core: c, limit: c.root}, nil
}

// For returns a separate instance of the limit for one tenant, host or account: each key has its
// own queue and permits. The key is 1 to 512 bytes of any kind; with any other key, calls fail with
// [ErrInvalid]. For is cheap: call it for each use. Calling it on its own result replaces the key.
func (l *Limiter) For(key string) *Limiter {
	if err := validateKey(key); err != nil {
		return &Limiter{core: l.core, key: key, flow: l.flow, stays: l.stays, err: err}
	}
	of := &Limiter{core: l.core, key: key, limit: l.core.limit(key), flow: l.flow, stays: l.stays}
	if l.limit != nil {
		of.err = l.err
	}
	return of
}

// Limit is the configured limit; [Limiter.State] returns the limit in force. With [Config.LimitOf],
// the limit of a key is the newest plan that this process knows of: its own, or the one that another
// process has brought. If LimitOf fails, it is the last one.
func (l *Limiter) Limit() Limit {
	if l.planned() {
		if limit, err := l.core.planOf(l.key, l.limit); err == nil {
			return limit
		}
	}
	if l.limit != nil {
		if plan, version := l.limit.Plan(wire.Terms{}, 0); version > 0 {
			return l.core.cfg.Limit.as(plan)
		}
	}
	return l.core.cfg.Limit
}

// Name is the Config.Name that the Limiter was made with.
func (l *Limiter) Name() string { return l.core.cfg.Name }

// Group is the Config.Group that the Limiter was made with.
func (l *Limiter) Group() string { return l.core.cfg.Group }

// Settles reports whether costs are settled after the call: see [Config.Settles].
func (l *Limiter) Settles() bool { return l.core.cfg.Settles }

// Limits returns the Limiter itself, as [Joint.Limits] returns those of a Joint.
func (l *Limiter) Limits() []*Limiter { return []*Limiter{l} }

// String is the name, and the key after a slash if there is one.
func (l *Limiter) String() string {
	if l.key == "" {
		return l.core.cfg.Name
	}
	return l.core.cfg.Name + "/" + l.key
}

// Close ends all waits with [ErrClosed] and removes their places, also those of each [Joint] with
// this limit. A call that has its turn already, at most half a second early, keeps it. Other calls
// may then get slots that calls of this process still hold, so close the Limiter after those calls.
//
// If Redis does not answer, Close takes as long as one attempt of the client.
//
// Bookings stay, and [Joint.CancelBooking], [Reservation.Cancel] and [Reservation.Settle] still work. Close
// also closes every Limiter that For, Flow, Weight, Urgent and Staying derived from the same Limiter. It may
// be called more than once, and returns nil.
func (l *Limiter) Close() error {
	l.core.close()
	return nil
}

// Wait blocks until the call has its turn: a nil error means call now. It is WaitN(ctx, 1).
func (l *Limiter) Wait(ctx context.Context) error { return l.WaitN(ctx, 1) }

// WaitN blocks until the call has its turn: a nil error means call now. The call costs n permits,
// from 1 to the limit's burst.
//
// If the turn would come after the context's deadline, WaitN returns [ErrWouldMissDeadline] at
// once, and uses no permit. So do not give the timeout of the request to WaitN: start it after
// WaitN has returned. If the context ends during the wait, the call leaves the queue, and WaitN
// returns the context's error. If the process was suspended past its turn, the call waits for a new
// turn.
//
// Wait and Allow refuse a limit of [Concurrent] with [ErrInvalid]: use [Limiter.Acquire]. Other
// errors: [ErrInvalid], [ErrExceedsBurst], [ErrQueueFull], [ErrExhausted], [ErrUnavailable],
// [ErrDenied], [ErrVersion], [ErrCorrupt], [ErrClosed].
func (l *Limiter) WaitN(ctx context.Context, n int) error {
	return failed("wait", l, l.wait(ctx, n, false))
}

// Allow reports whether a call may be made right now, and if so takes the turn. It does not wait
// for a turn, but it does wait for Redis. It is AllowN(ctx, 1).
func (l *Limiter) Allow(ctx context.Context) (bool, error) { return l.AllowN(ctx, 1) }

// AllowN is Allow for a call that costs n permits. Errors are those of [Limiter.WaitN] except
// [ErrWouldMissDeadline].
func (l *Limiter) AllowN(ctx context.Context, n int) (bool, error) {
	allowed, err := allows(l.wait(ctx, n, true))
	return allowed, failed("allow", l, err)
}

func (l *Limiter) wait(ctx context.Context, n int, now bool) error {
	if err := l.check(ctx, n); err != nil {
		return err
	}
	if err := l.needsNoRelease(); err != nil {
		return err
	}
	need := engine.Need{Part: engine.Part{Limit: l.limit, Cost: int64(n)}, Settles: l.core.cfg.Settles, Stays: l.stays, Flow: l.flow}
	return l.costIn(l.core.wait(ctx, &need, now, l), "n", n)
}

// wait blocks until a call that needs some limits has its turn. If now is true, or the deadline has come, the
// call does not join the queue.
func (s *shared) wait(ctx context.Context, need *engine.Need, now bool, limits ...*Limiter) error {
	need.Now = now || hasNoTime(ctx)
	turn, err := s.process.Wait(ctx, *need)
	if err != nil {
		err = s.why(ctx, late(err, now))
		ended(ctx, need, turn.Waited, err, limits...)
		return err
	}
	used(ctx, need, &turn, limits...)
	return nil
}

// hasNoTime reports whether the deadline has come, though the context has not ended. Such a call is
// treated like Allow and does not join the queue.
func hasNoTime(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && !deadline.After(time.Now())
}

// late returns the error of a Wait whose deadline has come. The error of an Allow (now) is
// unchanged.
func late(err error, now bool) error {
	var later *engine.NotNow
	if now || !errors.As(err, &later) {
		return err
	}
	return &missed{wait: later.Wait, slowest: -1}
}

// waitOf returns the forecast of a call that does not wait and has no turn, and whether that is what the error says.
func waitOf(err error) (wait time.Duration, later bool) {
	var not *engine.NotNow
	if errors.As(err, &not) {
		return max(not.Wait, time.Millisecond), true
	}
	var miss *missed
	if errors.As(err, &miss) {
		return max(miss.wait, time.Millisecond), true
	}
	return 0, false
}

// allows returns the result of a call that does not wait: whether it has its turn.
func allows(err error) (bool, error) {
	if err == nil { // before what follows allocates
		return true, nil
	}
	var later *engine.NotNow
	if errors.As(err, &later) || errors.Is(err, ErrWouldMissDeadline) {
		return false, nil
	}
	return false, err
}

// check is the first step of every call.
func (l *Limiter) check(ctx context.Context, n int) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	if err := l.checkCost("n", n, true); err != nil {
		return err
	}
	if l.core.closed.Load() {
		return ErrClosed
	}
	return ctx.Err()
}

// usable is the check that also applies to calls that a closed Limiter still accepts.
func (l *Limiter) usable(ctx context.Context) error {
	if ctx == nil {
		return invalid("ctx", "must not be nil")
	}
	return l.err
}

// joint returns the Joint of this limit alone.
func (l *Limiter) joint() *Joint { return &Joint{limits: []*Limiter{l}} }

// Reserve joins the queue without waiting for the turn. It is ReserveN(ctx, 1).
func (l *Limiter) Reserve(ctx context.Context) (*Reservation, error) { return l.ReserveN(ctx, 1) }

// ReserveN joins the queue for a call of n permits without waiting for its turn. It returns when
// the turn, or a forecast of it, is known. The context is for the round trip only: a deadline does
// not bound the turn. Errors are those of [Limiter.WaitN] except [ErrWouldMissDeadline].
func (l *Limiter) ReserveN(ctx context.Context, n int) (*Reservation, error) {
	return l.joint().Reserve(ctx, n)
}

// PrefetchStats counts the permits that a process took ahead of its calls: see [Config.Prefetch]. Taken
// is the sum of Used, Returned, Expired, and the permits that the process holds now.
type PrefetchStats struct {
	Taken    int64 // from the bucket
	Used     int64 // by calls
	Returned int64 // to the bucket
	Expired  int64 // lost: they were not used in time, and the bucket had no room for them
}

// PrefetchStats returns the counts since the Limiter was made, for all of its keys together.
func (l *Limiter) PrefetchStats() PrefetchStats {
	s := l.core.process.LeaseStats(l.core.name)
	return PrefetchStats{s.Taken, s.Used, s.Returned, s.Lapsed}
}

// Turns is a [Limiter] or a [Joint], for code that works with either. Convert it with
// All(t.Limits()...). Other packages do that, so they call no methods of your own type.
type Turns interface {
	Limits() []*Limiter
	String() string

	Pause(ctx context.Context, d time.Duration, reason string) error
	PauseUntil(ctx context.Context, until time.Time, reason string) error
	Resume(ctx context.Context) error
}

var (
	_ Turns = (*Limiter)(nil)
	_ Turns = (*Joint)(nil)
)
