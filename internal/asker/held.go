package asker

import (
	"context"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/queue"
)

// Held is a call that stands in the queue, or is booked, while nobody may wait for it. It is
// safe for concurrent use, but for Wait, which one may call at a time.
type Held struct {
	asker *Asker
	*waiter

	// All below is of the asker's lock, and so is the waiter's kind.
	turn    *queue.Turn // that it was given last; nil: none yet
	used    bool
	due     time.Time // of its turn, as far as it is known
	slowest int
	booked  bool
}

// Hold lets a call join the queue, and returns when it has a turn or a forecast. Where Redis
// is away that may be when its turn has come. Errors are those of Wait; the context is for
// the first answer only. A turn after the deadline is none for it; zero: any is.
func (a *Asker) Hold(ctx context.Context, need Need, deadline time.Time) (*Held, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &waiter{Call: queue.NewCall(), need: need}
	w.Deadline = deadline
	w.Held = true
	a.join(w, false)
	h := &Held{asker: a, waiter: w}
	select {
	case e := <-w.Wake:
		if e.Err != nil {
			return nil, e.Err
		}
		h.hear(e)
		return h, nil
	case <-ctx.Done():
		a.giveUp(w)
		return nil, ctx.Err()
	}
}

// hear notes what a call was woken for.
func (h *Held) hear(e queue.Event) {
	h.asker.lock()
	defer h.asker.mu.Unlock()
	h.look()
	if !e.Booked.IsZero() {
		h.booked, h.due = true, e.Booked
	}
}

// look notes how the call stands. The asker must be locked.
func (h *Held) look() {
	if h.used {
		return
	}
	if t := h.kind.queue.TurnOf(h.Call); t != nil {
		h.turn, h.due = t, t.Due
		return
	}
	if t := h.kind.queue.Expired(h.Call); t != nil {
		h.turn, h.due = t, t.Due
	}
	if moment, slowest, known := h.kind.queue.Forecast(h.Call); known {
		h.turn, h.due, h.slowest = nil, moment, slowest
	}
}

// Due is when its turn comes, a forecast until that is given.
func (h *Held) Due() time.Time {
	h.asker.lock()
	defer h.asker.mu.Unlock()
	h.look()
	return h.due
}

// Given reports whether it was given a turn.
func (h *Held) Given() bool { return !h.Until().IsZero() }

// Until is until when its turn may be used; zero: it has none yet.
func (h *Held) Until() time.Time {
	h.asker.lock()
	defer h.asker.mu.Unlock()
	h.look()
	if h.turn == nil {
		return time.Time{}
	}
	return h.turn.Until
}

// Take uses a turn that has come without a Wait; false: there is none.
func (h *Held) Take() (Turn, bool) {
	a := h.asker
	a.lock()
	defer a.mu.Unlock()
	h.look()
	t := h.turn
	now := time.Now()
	if h.used || t == nil || t.Due.After(now) {
		return Turn{}, false
	}
	h.kind.queue.Use(h.Call, t)
	h.used = true
	h.Uses(t, now)
	a.used(&h.kind.need, t)
	return *t, true
}

// Slowest is the index of the limit that holds it back most.
func (h *Held) Slowest() int {
	h.asker.lock()
	defer h.asker.mu.Unlock()
	h.look()
	return h.slowest
}

// Booked reports whether it does not stand in the queue: its turn is too far away for that.
func (h *Held) Booked() bool {
	h.asker.lock()
	defer h.asker.mu.Unlock()
	return h.booked
}

// Wait is Asker.Wait for a call that is held; one that is booked joins the queue, and one
// whose turn was used is given another. If the context ends, the call keeps what it has.
func (h *Held) Wait(ctx context.Context) (Turn, error) { return h.WaitEarly(ctx, 0) }

// WaitEarly is Wait for a call that is made elsewhere: it returns up to early before the turn is due.
func (h *Held) WaitEarly(ctx context.Context, early time.Duration) (Turn, error) {
	a := h.asker
	t, err := h.resume()
	if err != nil {
		return Turn{}, err
	}
	var timer alarm
	defer timer.stop()
	due := timer.set(t, early)
	for {
		if !due {
			select {
			case e := <-h.Call.Wake:
				h.hear(e)
				if e.Err != nil {
					return Turn{}, e.Err
				}
				t = a.turnOf(h.waiter)
				due = timer.set(t, early)
				continue
			case <-timer.due:
			case <-ctx.Done():
				return Turn{}, ctx.Err()
			}
		}
		due = false
		if !a.use(h.kind, h.Call, t) {
			continue
		}
		now := time.Now()
		if now.After(t.Until) {
			h.again(t, now)
			continue
		}
		a.lock()
		h.turn, h.used, h.due = t, true, t.Due
		h.Uses(t, later(now, t.Due))
		a.used(&h.kind.need, t)
		a.mu.Unlock()
		return *t, nil
	}
}

// resume returns the turn that the call has; nil: it waits for one. One that is in no queue
// any more joins it again.
func (h *Held) resume() (*queue.Turn, error) {
	a := h.asker
	now := time.Now()
	a.lock()
	defer a.mu.Unlock()
	if a.closed || h.kind.need.ended() {
		return nil, a.cfg.Errors.Closed
	}
	h.look()
	if !h.Ended() {
		return h.kind.queue.TurnOf(h.Call), nil
	}
	if e := h.Heard(); e.Err != nil {
		return nil, e.Err
	}
	if err := a.otherKind(&h.kind.need); err != nil {
		return nil, err
	}
	h.kind = a.kind(&h.kind.need)
	if h.turn != nil { // it was over long ago, or was used too late
		h.kind.queue.Return(h.Call, h.turn, now)
	} else { // it was booked, or its wait has failed
		h.kind.need.Patience = forever
		h.Reset(time.Time{})
		h.kind.queue.Join(h.Call, now)
	}
	h.turn, h.used, h.booked = nil, false, false
	a.wants(h.kind)
	a.kick()
	return nil, nil
}

// Late lets the call ask anew, first of all, whose turn came too late to who was to make it. The
// next turn takes so long a way from here for granted. The turn goes back where it is known that
// nobody has used it.
func (h *Held) Late(way time.Duration, unused bool) error {
	a := h.asker
	now := time.Now()
	a.lock()
	defer a.mu.Unlock()
	if a.closed || h.kind.need.ended() {
		return a.cfg.Errors.Closed
	}
	if !h.used {
		return nil
	}
	t := *h.turn
	t.Alone = t.Alone && unused
	if t.Tags == nil && t.Process != "" { // as one that had to wait: it keeps its place
		t.Tags = slices.Repeat([]int64{t.Given}, len(h.kind.parts))
	}
	h.kind = a.kind(&h.kind.need)
	a.watch(Event{What: Lapsed, N: 1, Took: now.Sub(t.Until), Need: &h.kind.need})
	h.kind.queue.Return(h.Call, &t, now)
	if way > 0 {
		h.kind.late = max(h.kind.late, t.Way+way)
	}
	h.turn, h.used, h.due = nil, false, now
	a.wants(h.kind)
	a.kick()
	return nil
}

// again lets the call ask anew whose turn was over when it came to use it.
func (h *Held) again(t *queue.Turn, now time.Time) {
	k := h.asker.overslept(h.kind, h.Call, t, now)
	h.asker.lock()
	defer h.asker.mu.Unlock()
	h.kind, h.turn = k, nil
}

// Cancel ends the call: its place goes, or its turn, if that was the last that was given, or
// its booking. It reports false if its turn was used.
func (h *Held) Cancel() bool { return h.leave(false, false) }

// Book ends the call here: it is to come back under its ID, in the order that it had. A turn
// that was used, or is over, was for nothing then.
func (h *Held) Book() bool { return h.leave(true, false) }

// Keep is Book for a call that may not come back: nobody waits for it.
func (h *Held) Keep() bool { return h.leave(true, true) }

func (h *Held) leave(books, unsure bool) bool {
	a := h.asker
	a.lock()
	h.look()
	k := h.kind
	switch {
	case h.used && !books:
		a.mu.Unlock()
		return false
	case books && h.turn != nil && k.queue.TurnOf(h.Call) == nil:
		h.rebook(unsure)
		a.mu.Unlock()
		return true
	}
	k.books, k.unsure = books, unsure
	h.booked = h.booked && books
	a.mu.Unlock()
	a.giveUp(h.waiter)
	return true
}

// rebook books a call whose turn is in no queue any more. The asker must be locked.
func (h *Held) rebook(unsure bool) {
	a := h.asker
	if a.closed {
		return
	}
	now := time.Now()
	h.kind = a.kind(&h.kind.need)
	h.kind.books, h.kind.unsure = true, unsure
	h.kind.queue.Unneeded(h.turn)
	a.plan(h.kind, a.clock.now(now), now)
	a.kick()
}
