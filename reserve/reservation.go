package reserve

import (
	"context"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/internal/fault"
)

// A Reservation is a turn that was given and not used yet. Its number stays in
// the line until its turn is used, it is cancelled, or it lapses.
//
// A turn that is close is [Reservation.Final]. One further away is a forecast:
// the line may move, and somebody who is awake may be first, so let
// [Reservation.Wait] tell when to call, or claim it under its ID with
// [Limiter.Claim] when Delay is over. It is safe for concurrent use.
type Reservation struct {
	limiter *Limiter

	mu        sync.Mutex
	ticket    ticket
	waiter    *waiter // of the Wait that is under way, or nil
	line      *line   // of that Wait
	used      bool
	cancelled chan struct{} // closed by Cancel
}

// Reserve takes a number without waiting for its turn. It is ReserveN(ctx, 1).
func (l *Limiter) Reserve(ctx context.Context) (*Reservation, error) { return l.ReserveN(ctx, 1) }

// ReserveN takes a number for a call of n permits without waiting for its turn.
// The context is for the round trip only: a deadline does not bound the turn.
// Errors are those of [Limiter.WaitN].
func (l *Limiter) ReserveN(ctx context.Context, n int) (*Reservation, error) {
	return l.reserve(ctx, l.core.newID(), n)
}

// ReserveAs is ReserveN under an ID of the caller's, 1 to 256 bytes that no
// other call of the fleet uses. Asked again, also by another process, it
// returns the number that the ID already has, up to the inline bound after its
// turn: Redis does not know whether the call was made. So an ID names one turn,
// and after its use the next turn needs another ID. The same ID with another
// cost is another reservation.
func (l *Limiter) ReserveAs(ctx context.Context, id string, n int) (*Reservation, error) {
	if err := validateID(id); err != nil {
		return nil, l.fail("reserve", err)
	}
	return l.reserve(ctx, id, n)
}

func (l *Limiter) reserve(ctx context.Context, id string, n int) (*Reservation, error) {
	t, err := l.ask(ctx, n, request{id: id, keep: true, named: true})
	if err != nil {
		return nil, l.fail("reserve", err)
	}
	return l.reservation(t), nil
}

// Claim asks for the turn of an ID shortly before it is due. The claimer gets
// the earliest number that nobody has claimed, whatever number it had before: if
// that is near, the reservation is Final; if not, come back after its Delay. An
// ID that has no number (any more) gets a new one. A claim may be repeated.
// Errors are those of [Limiter.ReserveN].
func (l *Limiter) Claim(ctx context.Context, id string, n int) (*Reservation, error) {
	t, err := l.claim(ctx, id, n, func(*line, int64) time.Duration { return l.core.cfg.InlineBound })
	if err != nil {
		return nil, l.fail("claim", err)
	}
	return l.reservation(t), nil
}

// claim asks for the turn of an ID if it is nearer than the bound.
func (l *Limiter) claim(ctx context.Context, id string, n int, within func(*line, int64) time.Duration) (*ticket, error) {
	if err := validateID(id); err != nil {
		return nil, err
	}
	line, err := l.enter(ctx, n)
	if err != nil {
		return nil, err
	}
	defer l.core.leave(line)

	t := &ticket{cost: int64(n), id: id}
	line.mu.Lock()
	bound := within(line, t.cost)
	line.mu.Unlock()
	var reply answers
	err = line.do(ctx, func(who caller) (err error) {
		reply, err = l.core.claim(ctx, line.keys, who, bound, []*ticket{t})
		return err
	})
	line.mu.Lock()
	defer line.mu.Unlock()
	switch {
	case err == nil:
		line.learn(line.main(), 0, reply)
		t.set(reply, 0, true)
		line.adjust(t)
		return t, nil
	case fault.Away(err) && l.core.gate.Open():
		return line.withoutRedis(id, t.cost, err)
	default:
		return nil, err
	}
}

// Cancel gives the number of an ID back to the line and reports whether there
// was one. Only cancel what was not called: the turn is given to somebody else.
// It works after Close, too.
func (l *Limiter) Cancel(ctx context.Context, id string, n int) (bool, error) {
	went, err := l.cancel(ctx, id, n)
	return went, l.fail("cancel", err)
}

func (l *Limiter) cancel(ctx context.Context, id string, n int) (bool, error) {
	if err := validateID(id); err != nil {
		return false, err
	}
	if err := l.check(ctx, n); err != nil {
		return false, err
	}
	if err := l.core.settle(ctx, l.key, id); err != nil {
		return false, err
	}
	var went []bool
	err := l.core.do(ctx, func() (err error) {
		went, err = l.core.cancel(ctx, l.core.keys(l.key), l.core.stranger(), []*ticket{{cost: int64(n), id: id}})
		return err
	})
	return err == nil && went[0], err
}

func (l *Limiter) reservation(t *ticket) *Reservation {
	return &Reservation{limiter: l, ticket: *t, cancelled: make(chan struct{})}
}

// ID is the name of the reservation in Redis: the caller's, or one that was
// made up. Another process can claim or cancel it with it.
func (r *Reservation) ID() string { return r.ticket.id }

// Number is the reservation's place in the line: permits are numbered in the
// order in which they become available. It may change until the turn is Final.
func (r *Reservation) Number() int64 { return r.snapshot().number }

// Final reports whether the turn is fixed: sleep the Delay, then call.
func (r *Reservation) Final() bool { return r.snapshot().final }

// Due is the moment of the turn on the local clock, as far as it is known.
func (r *Reservation) Due() time.Time { return r.snapshot().due }

// Delay is how long it is until the turn, as far as it is known; 0 once it has
// come.
func (r *Reservation) Delay() time.Duration { return max(0, time.Until(r.Due())) }

// snapshot is the ticket as it is known now, also while somebody waits for it.
func (r *Reservation) snapshot() ticket {
	r.mu.Lock()
	t, w, line := r.ticket, r.waiter, r.line
	r.mu.Unlock()
	if w == nil {
		return t
	}
	line.mu.Lock()
	defer line.mu.Unlock()
	return *w.own
}

// Wait blocks until the turn has come: return nil means call now, and uses the
// reservation up. If the context ends first, the number is kept: Wait again, or
// Cancel. Errors: the context's, [ErrCancelled], [ErrUnavailable],
// [ErrCorrupt], [ErrClosed], and [ErrInvalid] where the turn was used before or
// is being waited for already.
func (r *Reservation) Wait(ctx context.Context) error {
	return r.limiter.fail("wait", r.wait(ctx))
}

func (r *Reservation) wait(ctx context.Context) error {
	line, err := r.limiter.enter(ctx, int(r.ticket.cost))
	if err != nil {
		return err
	}
	defer r.limiter.core.leave(line)
	w, err := r.begin(line)
	if err != nil {
		return err
	}
	select {
	case <-w.done:
		err = told(ctx, w.err)
	case <-ctx.Done():
		err = ctx.Err()
	case <-r.cancelled:
		err = ErrCancelled
	case <-r.limiter.core.closing:
		err = ErrClosed
	}
	line.mu.Lock()
	defer line.mu.Unlock()
	if err != nil {
		if w.ticket != nil { // its turn came at the same moment
			line.unobserve(w.ticket)
		}
		line.unpin(w, false)
		line.advance(w.queue)
	}
	ended := r.end(w, err)
	if err == nil && ended != nil {
		line.unobserve(w.own)
	}
	return ended
}

// begin lets a call wait for the reservation, with a copy of its ticket for the
// line to work on.
func (r *Reservation) begin(line *line) (*waiter, error) {
	line.mu.Lock()
	defer line.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isCancelled() {
		return nil, ErrCancelled
	}
	if r.used || r.waiter != nil {
		return nil, invalid("reservation", "%q is used up, or waited for already", r.ticket.id)
	}
	t := r.ticket
	t.out, t.left = false, false // of the Wait before
	r.waiter, r.line = newWaiter(time.Time{}), line
	line.await(r.waiter, &t)
	return r.waiter, nil
}

// end notes how a Wait went. A turn that was cancelled as it came is not used.
func (r *Reservation) end(w *waiter, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && r.isCancelled() {
		err = ErrCancelled
	}
	r.ticket, r.used, r.waiter, r.line = *w.own, err == nil, nil, nil
	return err
}

func (r *Reservation) isCancelled() bool {
	select {
	case <-r.cancelled:
		return true
	default:
		return false
	}
}

// Lapsed reports whether the turn was missed: it came so long ago that its
// permits are gone, and a call made now would be one too many. Claim again.
func (r *Reservation) Lapsed() bool {
	t := r.snapshot()
	return t.final && t.overslept(time.Now())
}

// Cancel gives the number back to the line, for somebody else to use. It ends a
// Wait for it. Cancelling again, or after the turn was used, does nothing;
// after an error it may be repeated.
func (r *Reservation) Cancel(ctx context.Context) error {
	r.mu.Lock()
	used, w, line := r.used, r.waiter, r.line
	if !used && !r.isCancelled() {
		close(r.cancelled)
	}
	id, n := r.ticket.id, int(r.ticket.cost)
	r.mu.Unlock()
	if used {
		return nil
	}
	if w != nil { // whoever waits may not have noticed yet
		line.mu.Lock()
		line.unpin(w, false)
		line.mu.Unlock()
	}
	_, err := r.limiter.cancel(ctx, id, n)
	return r.limiter.fail("cancel", err)
}
