package reserve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Limiter gives every call of a whole fleet its turn. All processes that use
// the same Redis, prefix and name share one line: calls are made one after the
// other at the rate of the [Limit], and never faster.
//
// Where golang.org/x/time/rate keeps a token bucket in memory, a Limiter keeps
// one in Redis; Wait, Reserve and Allow mean the same in both. Most callers want
// [Limiter.Wait].
//
// Calls that wait in one process have their turns first come, first served.
// Between processes, whoever is awake gets the next turn, so a process that
// died holds nobody up.
//
// The zero Limiter is not usable; make one with [New] and keep it for as long
// as the process runs. It is safe for concurrent use.
type Limiter struct {
	core *core
	key  string
	err  error // what is wrong with the key
}

// New makes a Limiter on any go-redis client: single, Sentinel or Cluster. A
// Ring is refused, because it loses the line when a shard fails. Nothing is
// asked of Redis yet. The error is an [ErrInvalid] that names the field.
func New(client redis.UniversalClient, config Config) (*Limiter, error) {
	if err := validateClient(client); err != nil {
		return nil, fmt.Errorf("reserve: %w", err)
	}
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("reserve: %w", err)
	}
	c, err := newCore(client, config)
	if err != nil {
		return nil, err
	}
	return &Limiter{core: c}, nil
}

// For returns the same limit for one tenant, host or account: each key has a
// line of its own. The key is 1 to 512 bytes of any kind; with another one the
// calls of the result fail with [ErrInvalid]. For is cheap and keeps nothing:
// call it for each use. Calling it on its own result replaces the key.
func (l *Limiter) For(key string) *Limiter {
	return &Limiter{core: l.core, key: key, err: validateKey(key)}
}

// Limit is the limit that the Limiter was made with.
func (l *Limiter) Limit() Limit { return l.core.cfg.Limit }

// Group is the Config.Group that the Limiter was made with.
func (l *Limiter) Group() string { return l.core.cfg.Group }

// String is the name, and the key after a slash.
func (l *Limiter) String() string { return l.core.name(l.key) }

// Close ends all waits with [ErrClosed], those of a [Joint] that needs the limit
// too, gives their numbers back and returns when that is done. Reservations stay in the line until they are cancelled or
// lapse. Close reaches every Limiter that For made of the same one. It may be
// called more than once.
func (l *Limiter) Close() error {
	l.core.close()
	return nil
}

// Wait blocks until the call has its turn: return nil means call now. It is
// WaitN(ctx, 1).
func (l *Limiter) Wait(ctx context.Context) error { return l.WaitN(ctx, 1) }

// WaitN blocks until the call has its turn; the call costs n permits, from 1 to
// the limit's burst.
//
// If the turn would come after the context's deadline, WaitN returns at once
// with [ErrWouldMissDeadline] and has consumed nothing. So a deadline that is
// meant for the request belongs to the request, and not to the wait. If the context ends
// while it waits, the number goes back to the line and the error is the
// context's. A process that was suspended past its turn waits for another.
//
// Other errors: [ErrInvalid], [ErrExceedsBurst], [ErrUnavailable],
// [ErrCorrupt], [ErrClosed].
func (l *Limiter) WaitN(ctx context.Context, n int) error {
	return l.fail("wait", l.wait(ctx, n))
}

func (l *Limiter) wait(ctx context.Context, n int) error {
	if !l.paced() {
		return l.solo().wait(ctx, []int{n})
	}
	line, err := l.enter(ctx, n)
	if err != nil {
		return err
	}
	defer l.core.leave(line)
	if l.core.cfg.Lease > 0 && line.draw(int64(n)) {
		return nil
	}

	deadline, _ := ctx.Deadline()
	w := l.core.riders.get(int64(n), deadline)
	w.blind = ctx.Done() == nil
	drives := line.board(w)
	switch {
	case drives && w.blind:
		l.core.bus.myself()
	case drives: // not itself: it may be told to leave at any time
		go l.core.bus.drive()
	}
	if w.blind { // its trip will be over soon, or it is told that it stands
		<-w.done
	}
	for !w.over() {
		select {
		case <-w.done:
			continue
		case <-ctx.Done():
			err = ctx.Err()
		case <-l.core.closing:
			err = ErrClosed
		}
		if w.turn(left) {
			return err
		}
		if w.stage.Load() == standing {
			line.quit(w)
			return err
		}
		<-w.done // its turn came at the same moment
	}
	if w.stage.Load() == granted {
		l.core.riders.put(w)
		return nil
	}
	return told(ctx, w.err)
}

// Allow reports whether a call may be made right now, and if so takes the turn.
// It never waits for a turn; it does wait for Redis. It is AllowN(ctx, 1).
func (l *Limiter) Allow(ctx context.Context) (bool, error) { return l.AllowN(ctx, 1) }

// AllowN is Allow for a call that costs n permits.
func (l *Limiter) AllowN(ctx context.Context, n int) (bool, error) {
	allowed, err := l.allow(ctx, n)
	if errors.Is(err, ErrWouldMissDeadline) {
		return false, nil
	}
	return allowed, l.fail("allow", err)
}

func (l *Limiter) allow(ctx context.Context, n int) (bool, error) {
	if !l.paced() {
		return l.solo().allow(ctx, []int{n})
	}
	id, err := l.rideAlone(ctx, n)
	if id == "" || err != nil {
		return err == nil, err
	}
	slow := l.core.slow(l.core.terms())
	for {
		t, err := l.ask(ctx, n, request{id: id, keep: slow, deadline: time.Now()})
		if err != nil {
			return false, err
		}
		now := time.Now()
		if !t.overslept(now) {
			l.observe(t, now)
			return true, nil
		}
		if t.kept { // the reply came too late to use it
			return l.allowAgain(ctx, t)
		}
		id = l.core.newID()
	}
}

// allowAgain asks for a turn once more that came too late to use it. It waits again
// meanwhile, so it is lost only to somebody else who has it.
func (l *Limiter) allowAgain(ctx context.Context, t *ticket) (bool, error) {
	here, err := l.core.enter(l.key)
	if err != nil {
		return false, err
	}
	defer l.core.leave(here)
	atOnce := func(*line, int64) time.Duration { return 0 }
	for {
		t.back = true
		here.waitAgain(ctx, []*ticket{t})
		var claimed *ticket
		if claimed, err = l.claim(ctx, t.id, int(t.cost), atOnce); err != nil {
			break
		}
		t = claimed
		now := time.Now()
		if !t.final { // somebody else has the turn
			break
		}
		if !t.overslept(now) {
			l.observe(t, now)
			return true, nil
		}
	}
	here.mu.Lock()
	defer here.mu.Unlock()
	here.giveBack(t)
	return false, err
}

// rideAlone returns no id if the call had its turn when its trip came back. If not, it
// may be too far away; whoever wants to know asks under that id.
func (l *Limiter) rideAlone(ctx context.Context, n int) (string, error) {
	line, err := l.enter(ctx, n)
	if err != nil {
		return "", err
	}
	defer l.core.leave(line)
	if l.core.cfg.Lease > 0 && line.draw(int64(n)) {
		return "", nil
	}

	w := l.core.riders.get(int64(n), time.Now())
	w.lone = true
	if line.board(w) {
		go l.core.bus.drive()
	}
	for err == nil && w.stage.Load() == riding {
		select {
		case <-w.done: // maybe of the call before that used the waiter
		case <-ctx.Done():
			err = ctx.Err()
		case <-l.core.closing:
			err = ErrClosed
		}
	}
	if err != nil && w.turn(left) {
		return "", err
	}
	switch {
	case w.stage.Load() == granted:
		l.core.riders.put(w)
		return "", nil
	case w.ask != nil:
		return w.ask.id, err
	default:
		return l.core.newID(), err
	}
}

// check is what every call begins with.
func (l *Limiter) check(ctx context.Context, n int) error {
	if l.err != nil {
		return l.err
	}
	if !l.paced() {
		return l.unpaced()
	}
	if err := l.core.cfg.validateCost(n); err != nil {
		return err
	}
	return ctx.Err()
}

// enter checks a call and returns the line of the key.
func (l *Limiter) enter(ctx context.Context, n int) (*line, error) {
	if err := l.check(ctx, n); err != nil {
		return nil, err
	}
	return l.core.enter(l.key)
}

// ask sends one request and waits for its answer. Where the context ends first,
// a number that still comes goes back, unless the caller knows its id.
func (l *Limiter) ask(ctx context.Context, n int, r request) (*ticket, error) {
	line, err := l.enter(ctx, n)
	if err != nil {
		return nil, err
	}
	defer l.core.leave(line)

	r.cost = int64(n)
	w := newWaiter(r.deadline)
	gone := false
	a := &ask{request: r}
	a.done = func(t *ticket, err error) {
		if gone && t != nil && !r.named && t.number != 0 {
			line.giveBack(t)
		}
		w.finish(t, err)
	}
	line.mu.Lock()
	line.enqueue(a)
	line.serve()
	line.mu.Unlock()
	select {
	case <-w.done:
		return w.ticket, told(ctx, w.err)
	case <-ctx.Done():
		err = ctx.Err()
	case <-l.core.closing:
		err = ErrClosed
	}
	line.mu.Lock()
	defer line.mu.Unlock()
	gone = true
	if w.ticket != nil && !r.named && w.ticket.number != 0 {
		line.giveBack(w.ticket)
	}
	line.withdraw(a)
	return nil, err
}
