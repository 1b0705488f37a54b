package reserve

import (
	"context"
	"time"
)

// A Request asks for one number in [Limiter.LineUp].
type Request struct {
	ID string // 1 to 256 bytes, as for [Limiter.ReserveAs]
	N  int    // permits

	// Deadline is the latest moment of use for the turn, on the local clock. One
	// that would come later is not taken. The zero time means that any will do.
	Deadline time.Time
}

// A Placed is the answer to one [Request]: a reservation or an error.
type Placed struct {
	*Reservation
	Err error
}

// LineUp takes numbers for calls that are made later, perhaps by other
// processes: one round trip takes up to 256 of them, in the order of the
// requests. None of them is Final: whoever makes the call claims its turn with
// [Limiter.Enter]. Where nobody has come by then, the line waits for them until
// its keys expire, a second after the bucket would be full again. An ID that has
// a number keeps it. Where a round trip fails, the requests behind it fail too,
// so that the order is kept when all are asked for again.
//
// Each answer has its own error: [ErrWouldMissDeadline], or one of
// [Limiter.ReserveN]. When the context ends, numbers that were taken stay in the
// line under their IDs.
func (l *Limiter) LineUp(ctx context.Context, requests []Request) []Placed {
	placed := make([]Placed, len(requests))
	for i := range requests {
		placed[i].Err = l.checkRequest(ctx, requests[i])
	}
	line, err := l.core.enter(l.key)
	if err == nil {
		defer l.core.leave(line)
		l.lineUp(ctx, line, requests, placed)
	}
	for i := range placed {
		if placed[i].Reservation == nil && placed[i].Err == nil {
			placed[i].Err = err
		}
		placed[i].Err = l.fail("line up", placed[i].Err)
	}
	return placed
}

func (l *Limiter) checkRequest(ctx context.Context, r Request) error {
	if err := validateID(r.ID); err != nil {
		return err
	}
	return l.check(ctx, r.N)
}

func (l *Limiter) lineUp(ctx context.Context, line *line, requests []Request, placed []Placed) {
	var reqs []request
	var at []int
	for i, r := range requests {
		if placed[i].Err == nil {
			reqs = append(reqs, request{cost: int64(r.N), id: r.ID, keep: true, deadline: r.Deadline})
			at = append(at, i)
		}
	}
	for len(reqs) > 0 {
		batch := cut(&reqs)
		answers, err := l.takeLater(ctx, line, batch)
		if err != nil {
			// Those behind must not be served before those that failed.
			for _, i := range at {
				placed[i].Err = err
			}
			return
		}
		for i, answer := range answers {
			placed[at[i]] = answer
		}
		at = at[len(batch):]
	}
}

func (l *Limiter) takeLater(ctx context.Context, line *line, reqs []request) ([]Placed, error) {
	placed := make([]Placed, len(reqs))
	var reply answers
	err := line.do(ctx, func(who caller) (err error) {
		who.member = "" // who lines up makes no calls
		reply, err = l.core.take(ctx, line.keys, who, noneFinal, reqs)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, r := range reqs {
		if reply.tickets[i].status == refused {
			placed[i].Err = reply.refusal(i, r)
			continue
		}
		t := &ticket{cost: r.cost, id: r.id}
		t.set(reply, i, true)
		placed[i].Reservation = l.reservation(t)
	}
	return placed, nil
}

// Enter is for a call that comes out of a queue, for the first time or again,
// such as a job whose worker is awake now. An ID that has a number keeps it, and
// a new one gets the next number of the line. A number that is about to pass, as
// its holder did not come in time, is used by whoever is awake: by the first call
// that waits in this process, or by this one if none does (not in the first
// second of a process); the holder then has the number of that call.
//
// If the turn is near, Wait for it. If not, the number stays in the line under
// the ID: enter again [Limiter.Lead] before it is due, or earlier. It may be
// repeated. Errors are those of [Limiter.ReserveN].
func (l *Limiter) Enter(ctx context.Context, id string, n int) (*Reservation, error) {
	t, err := l.claim(ctx, id, n, l.left)
	if err != nil {
		return nil, l.fail("enter", err)
	}
	return l.reservation(t), nil
}

// left is the bound within which a call that enters takes a number left lying.
// One that waits here already has a nearer number and looks for them (see
// queue.look): in its place the holder loses little, and newcomers, whose numbers
// are far, do not send it to the end of the line. And in a process that has just
// started, those who come back to it may come a moment later.
func (l *Limiter) left(line *line, cost int64) time.Duration {
	q := line.pinned[cost]
	if q != nil && len(q.waiting)+q.claiming > 0 || time.Since(l.core.started) < l.core.cfg.InlineBound {
		return noneFinal
	}
	return l.core.near()
}

// Leave is for a call that entered and will not be made here, such as a job whose
// worker ends. Its number waits again under the ID, also one that is Final: others
// may use that turn, and the ID has their number then. End a Wait for it before.
// Leave reports whether the ID has a number; the permits of one that lapsed are
// gone. It may be repeated, and works after Close.
func (l *Limiter) Leave(ctx context.Context, id string, n int) (bool, error) {
	err := validateID(id)
	if err == nil {
		err = l.check(ctx, n)
	}
	if err == nil {
		err = l.core.settle(ctx, l.key, id)
	}
	if err != nil {
		return false, l.fail("leave", err)
	}
	var stays bool
	err = l.core.do(ctx, func() (err error) {
		stays, err = l.core.putBack(ctx, l.core.keys(l.key), l.core.stranger(), int64(n), id)
		return err
	})
	return stays, l.fail("leave", err)
}

// Lead is how long before its turn a call that does not wait in this process
// should be back to [Limiter.Enter]. Its number is given to somebody who is awake
// when it is not back by half of that.
func (l *Limiter) Lead() time.Duration { return l.core.lead() }

// Forget frees the reservation's ID once its turn was used, so that the next
// [Limiter.ReserveAs], [Limiter.LineUp], [Limiter.Claim] or [Limiter.Enter] under
// it is a new call with a turn of its own. Without it, the ID is for this turn
// only. On a reservation whose turn was not used it is an [ErrInvalid]: Cancel
// it. It may be repeated.
func (r *Reservation) Forget(ctx context.Context) error {
	return r.limiter.fail("forget", r.forget(ctx))
}

func (r *Reservation) forget(ctx context.Context) error {
	r.mu.Lock()
	t, used := r.ticket, r.used
	r.mu.Unlock()
	if !used {
		return invalid("reservation", "%q was not used: cancel it", t.id)
	}
	c := r.limiter.core
	return c.do(ctx, func() error { return c.forget(ctx, c.keys(r.limiter.key), &t) })
}
