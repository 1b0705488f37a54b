package server

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
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
	Probes bool    `json:"probes,omitempty"`
}

// laterAnswer is the response for a call whose turn comes after its poll ends.
type laterAnswer struct {
	ID         string  `json:"id"`
	Held       float64 `json:"held_ms"`
	Forecast   float64 `json:"forecast_ms"`
	RetryAfter float64 `json:"retry_after_ms"`
	HeldBy     string  `json:"held_by,omitempty"`
	*stop
}

// poll is a request that waits. It is a context that ends when the client hangs up, or with one of
// the causes below.
type poll struct {
	context.Context
	end     context.CancelCauseFunc
	caller  caller
	attempt string        // the name of the request, if it has one
	came    time.Time     // when the request came
	way     time.Duration // how long the response takes to reach the caller
	over    time.Time     // when the poll ends
	maxWait time.Duration // for the turn, counted from the call's first request; below 0: no bound

	latest time.Time // when the turn is too late; the zero time: it never is
	timer  *time.Timer
	call   atomic.Pointer[reserve.Reservation] // what it waits for
}

// Why a request waits no longer.
var (
	errOver   = errors.New("the poll has ended")
	errTaken  = problem{Status: 409, Detail: "Another request waits under the same id now.", after: -1}
	errEnding = away("This server is shutting down.")
	errHungUp = away("The request has ended.")
	errMute   = away("Redis did not answer before the poll ended or this server began to shut down.")
)

func newPoll(client context.Context) *poll {
	p := &poll{came: time.Now()}
	p.Context, p.end = context.WithCancelCause(client)
	return p
}

// until is how long the poll waits for a turn. A turn that is granted comes within
// half a second: another request could come too late for it.
func (p *poll) until(r *reserve.Reservation) time.Time {
	until := p.over
	if r.Granted() {
		until = maxTime(until, maxTime(r.Due(), time.Now()).Add(keepUp))
	}
	return minTime(until, p.latest)
}

// misses reports whether a turn at that moment is too late.
func (p *poll) misses(due time.Time) bool { return !p.latest.IsZero() && due.After(p.latest) }

// ring ends the poll, unless a turn was granted meanwhile.
func (p *poll) ring() {
	if r := p.call.Load(); r != nil && r.Granted() && !r.Lapsed() && !time.Now().After(p.over.Add(keepUp)) {
		if more := time.Until(p.until(r)); more > 0 {
			p.timer.Reset(more)
			return
		}
	}
	p.end(errOver)
}

// leasedUsable is how long a prefetched turn may be used after its response. It allows for the jitter
// of networks.
const leasedUsable = 20 * time.Millisecond

// roundTrip is how long Redis usually takes at most to answer.
const roundTrip = 20 * time.Millisecond

func (s *Server) wait(w http.ResponseWriter, r *http.Request) {
	p := newPoll(r.Context())
	defer p.end(nil)
	var q waitRequest
	if !read(w, r, &q) {
		return
	}
	n, err := s.terms(&q, p)
	if err != nil {
		answer(w, problemOf(err, ""))
		return
	}
	p.caller = whoCalls(r)
	if err = s.enter(p); err != nil {
		s.report(r.Context(), p.caller, err)
		answer(w, err)
		return
	}
	defer s.exit(p)
	id := q.ID
	if id != "" {
		id = prefix + id
	}
	var lost []string
	p.attempt, lost = attemptsOf(r)
	s.freeLost(r.Context(), n, id, p.caller, lost)
	at, err := s.places.claim(p, id, n)
	if err != nil {
		answer(w, problemOf(err, "id"))
		return
	}
	s.handBack(r.Context(), &q, at, p.way)
	body := s.await(r.Context(), p, at)
	if later, ok := body.(laterAnswer); ok {
		later.Held = millis(time.Since(p.came))
		retryAfter(w, time.Duration(later.RetryAfter*float64(time.Millisecond)))
		write(w, http.StatusAccepted, "application/json", later)
		return
	}
	answer(w, body)
}

// enter counts a waiting request, or says why it may not wait. The request calls exit at its end.
func (s *Server) enter(p *poll) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ending.Err() != nil:
		return errEnding
	case !s.waiting.take(p.caller):
		return s.waiting.refusal(p.caller)
	}
	s.polls[p] = struct{}{}
	return nil
}

func (s *Server) exit(p *poll) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.polls, p)
	s.waiting.free(p.caller)
}

// terms returns what a request needs, and fills in how long it waits.
func (s *Server) terms(q *waitRequest, p *poll) (n need, err error) {
	if err = validateID(q.ID); err != nil {
		return n, err
	}
	p.maxWait = -1
	if q.MaxWait != "" {
		if p.maxWait, err = durationOf("max_wait", q.MaxWait); err != nil {
			return n, err
		}
	}
	poll := s.config.Poll
	if q.Poll != "" {
		own, err := durationOf("poll", q.Poll)
		if err != nil {
			return n, err
		}
		poll = min(poll, own)
	}
	if p.way, err = durationOf("way", q.Way); err != nil {
		return n, err
	}
	p.way = min(p.way, reserve.Lead)
	if q.Late && q.ID == "" {
		return n, wrong("id", "", "must be given with late: it says whose turn came too late")
	}
	p.over = time.Now().Add(poll)
	return s.resolve(&q.call, true)
}

// await waits for the turn of a place that the request owns, and returns the response. It gives the
// place back or drops it.
func (s *Server) await(ctx context.Context, p *poll, at *place) any {
	if at.leased && at.id == "" {
		if wait, err := now(p, at.turns, at.costs...); err == nil && wait == 0 {
			s.places.drop(at)
			return prefetched(p, at)
		}
	}
	if p.maxWait >= 0 {
		p.latest = at.since.Add(p.maxWait + roundTrip)
	}
	p.timer = time.AfterFunc(time.Until(p.over)+answerTime, p.ring)
	defer p.timer.Stop()
	if err := s.join(p, at); err != nil {
		if errors.Is(err, reserve.ErrExhausted) {
			if at.reservation = at.turns.Probe(p, at.costs...); at.reservation != nil {
				return s.give(ctx, p, at)
			}
		}
		s.places.drop(at)
		switch {
		case ctx.Err() != nil || !isEnded(err):
			return problemOf(err, "limits")
		case context.Cause(p) == errTaken:
			return errTaken
		}
		return errMute
	}
	r := at.reservation
	due := r.Due()
	switch {
	case ctx.Err() != nil:
		s.hangUp(ctx, at)
		return errHungUp
	case p.misses(due):
		return s.miss(at)
	case r.Booked():
		return s.keepPlace(ctx, at)
	}
	if p.call.Store(r); due.After(time.Now()) { // else the turn is there, unless a pause has just begun
		p.timer.Reset(time.Until(p.until(r)))
	}
	err := r.WaitEarly(p, p.way)
	switch {
	case err == nil:
		return s.give(ctx, p, at)
	case p.Err() == nil:
		s.places.drop(at)
		_ = r.Cancel(context.WithoutCancel(ctx))
		s.report(ctx, p.caller, err)
		return problemOf(err, "limits")
	case ctx.Err() != nil:
		s.hangUp(ctx, at)
		return errHungUp
	}
	switch cause := context.Cause(p); {
	case cause == errTaken:
		<-at.mine
		return errTaken
	case cause == errEnding:
		return s.handOver(ctx, at)
	case !p.latest.IsZero() && !time.Now().Before(p.latest):
		return s.miss(at)
	}
	return s.keepPlace(ctx, at)
}

// prefetched is the response for a call that has a turn of a lease.
func prefetched(p *poll, at *place) any {
	used := time.Now()
	return turnAnswer{Turn: newID()[len(prefix):], Waited: millis(used.Sub(at.since)), Held: millis(used.Sub(p.came)), Usable: millis(leasedUsable)}
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
