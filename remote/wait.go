package remote

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// waitRequest is the body of /v1/wait.
type waitRequest struct {
	call
	MaxWait string `json:"max_wait"`
	Poll    string `json:"poll"`
	ID      string `json:"id"`
	Late    bool   `json:"late"`
	Turn    string `json:"turn"`
	Way     string `json:"way"`
}

// turnAnswer is the response for a call that has its turn.
type turnAnswer struct {
	Turn   string  `json:"turn"`
	ID     string  `json:"id,omitempty"`
	Waited float64 `json:"waited_ms"`
	Held   float64 `json:"held_ms"`
	Due    float64 `json:"due_ms"`
	Usable float64 `json:"usable_ms"`
	Lease  float64 `json:"lease_ms,omitempty"`
}

// laterAnswer is the response for a call whose turn comes after its poll ends.
type laterAnswer struct {
	ID         string  `json:"id"`
	Held       float64 `json:"held_ms"`
	Forecast   float64 `json:"forecast_ms"`
	RetryAfter float64 `json:"retry_after_ms"`
	HeldBy     string  `json:"held_by,omitempty"`
}

// terms say how long a request waits.
type terms struct {
	came    time.Time     // when the request came
	way     time.Duration // how long the response takes to reach the caller
	poll    time.Time     // when the poll ends
	maxWait time.Duration // for the turn, counted from the call's first request; below 0: no bound
}

// leasedUsable is how long a prefetched turn may be used after its response. It allows for the jitter
// of networks.
const leasedUsable = 20 * time.Millisecond

// latest returns the latest moment at which the turn may be due. The zero time means that there is no
// bound. The time that Redis takes to answer does not count.
func (t terms) latest(at *place) time.Time {
	if t.maxWait < 0 {
		return time.Time{}
	}
	return at.since.Add(t.maxWait + roundTrip)
}

// roundTrip is how long Redis usually takes at most to answer.
const roundTrip = 20 * time.Millisecond

func (s *Server) wait(w http.ResponseWriter, r *http.Request) {
	came := time.Now()
	var q waitRequest
	if !read(w, r, &q) {
		return
	}
	n, t, err := s.waitTerms(&q)
	if err != nil {
		answer(w, problemOf(err, ""))
		return
	}
	t.came = came
	if n.slots {
		defer s.turns.enter()()
	}
	defer s.waiting.Add(-1)
	switch most := int64(s.config.MaxWaiting); {
	case s.waiting.Add(1) > most:
		answer(w, away("Too many requests wait at this server."))
		return
	case s.ending.Err() != nil:
		answer(w, away("This server is shutting down."))
		return
	}
	id := q.ID
	if id != "" {
		id = prefix + id
	}
	mine, at, err := s.places.claim(r.Context(), id, n)
	if err != nil {
		answer(w, problemOf(err, "id"))
		return
	}
	s.handBack(r.Context(), &q, at, t)
	body := s.await(r.Context(), mine, at, t)
	if later, ok := body.(laterAnswer); ok {
		later.Held = millis(time.Since(came))
		retryAfter(w, time.Duration(later.RetryAfter*float64(time.Millisecond)))
		write(w, http.StatusAccepted, "application/json", later)
		return
	}
	answer(w, body)
}

func (s *Server) waitTerms(q *waitRequest) (n need, t terms, err error) {
	if err = validateID(q.ID); err != nil {
		return n, t, err
	}
	t.maxWait = -1
	if q.MaxWait != "" {
		if t.maxWait, err = durationOf("max_wait", q.MaxWait); err != nil {
			return n, t, err
		}
	}
	poll := s.config.Poll
	if q.Poll != "" {
		own, err := durationOf("poll", q.Poll)
		if err != nil {
			return n, t, err
		}
		poll = min(poll, own)
	}
	if t.way, err = durationOf("way", q.Way); err != nil {
		return n, t, err
	}
	t.way = min(t.way, reserve.Lead)
	if q.Late && q.ID == "" {
		return n, t, wrong("id", "", "must be given with late: it says whose turn came too late")
	}
	t.poll = time.Now().Add(poll)
	n, err = s.resolve(&q.call, true)
	return n, t, err
}

// await waits for the turn of a place that the request owns, and returns the response. It gives the
// place back or drops it.
func (s *Server) await(ctx, mine context.Context, at *place, t terms) any {
	if at.leased && at.id == "" {
		if wait, err := now(mine, at.turns, at.costs...); err == nil && wait == 0 {
			s.places.drop(at)
			used := time.Now()
			return turnAnswer{Turn: newID(), Waited: millis(used.Sub(at.since)), Held: millis(used.Sub(t.came)), Usable: millis(leasedUsable)}
		}
	}
	if err := s.join(mine, at, t); err != nil {
		taken := mine.Err() != nil
		s.places.drop(at)
		switch {
		case ctx.Err() != nil || !isEnded(err):
			return problemOf(err, "limits")
		case taken:
			return errTaken
		}
		return away("Redis did not answer before the poll ended or this server began to shut down.")
	}
	r := at.reservation
	for {
		latest := t.latest(at)
		switch due := r.Due(); {
		case !latest.IsZero() && due.After(latest):
			return s.miss(at)
		case r.Booked():
			return s.keepPlace(ctx, at)
		}
		until := t.poll
		if r.Final() { // the turn comes within half a second: another request could come too late for it
			until = maxTime(until, maxTime(r.Due(), time.Now()).Add(keepUp))
		}
		waiting, cancel := context.WithDeadline(mine, minTime(until, latest))
		stop := context.AfterFunc(s.ending, cancel)
		err := r.WaitEarly(waiting, t.way)
		stop()
		over := waiting.Err() != nil
		cancel()
		switch {
		case err == nil:
			return s.give(ctx, at, t)
		case !over:
			s.places.drop(at)
			_ = r.Cancel(context.WithoutCancel(ctx))
			s.report(ctx, err)
			return problemOf(err, "limits")
		case ctx.Err() != nil:
			s.hangUp(ctx, at)
			return away("The request has ended.")
		case mine.Err() != nil:
			<-at.mine
			return errTaken
		case s.ending.Err() != nil:
			return s.handOver(ctx, at)
		case !latest.IsZero() && !time.Now().Before(latest):
			return s.miss(at)
		case r.Final() && !r.Lapsed() && !time.Now().After(t.poll.Add(keepUp)):
			continue
		}
		return s.keepPlace(ctx, at)
	}
}

func isEnded(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// keepUp is how much longer than its poll a request may wait for a turn that is granted.
const keepUp = time.Second

func minTime(a, b time.Time) time.Time {
	if b.IsZero() || a.Before(b) {
		return a
	}
	return b
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
