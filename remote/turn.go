package remote

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

const (
	settleTime = 30 * time.Minute // how long the cost of a call may be settled
	mostTurns  = 200_000          // the most turns that are kept for that
)

// turn holds slots, or its cost is to be settled.
type turn struct {
	reservation    *reserve.Reservation
	caller         string
	slots, settles bool
	expires        *time.Timer // the lease, or the time to settle
}

// turns are the turns that hold slots or are to be settled.
type turns struct {
	mu      sync.Mutex
	byToken map[string]*turn
	lease   time.Duration
	logger  *slog.Logger

	holding int           // requests that may get slots, and turns that hold some
	none    chan struct{} // closed when holding falls to 0; made anew when it rises from 0
}

// hold adds n, 1 or -1, to holding. The turns must be locked.
func (t *turns) hold(n int) {
	if t.holding == 0 {
		t.none = make(chan struct{})
	}
	if t.holding += n; t.holding == 0 {
		close(t.none)
	}
}

// enter counts a request that may get slots, until it calls leave.
func (t *turns) enter() (leave func()) {
	count := func(n int) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.hold(n)
	}
	count(1)
	return func() { count(-1) }
}

// released blocks until no slots are held.
func (t *turns) released(ctx context.Context) error {
	for {
		t.mu.Lock()
		holding, none := t.holding, t.none
		t.mu.Unlock()
		if holding == 0 {
			return nil
		}
		select {
		case <-none:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// add keeps a turn if it holds slots or is to be settled.
func (t *turns) add(token, caller string, n need, r *reserve.Reservation) {
	if !n.slots && !n.settles {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byToken) >= mostTurns && !n.slots {
		t.logger.Warn("fleetpace: too many turns wait to be settled; a new turn cannot be settled", "limits", n.turns.String())
		return
	}
	u := &turn{reservation: r, caller: caller, slots: n.slots, settles: n.settles}
	t.byToken[token] = u
	if u.slots {
		t.hold(1)
		u.expires = time.AfterFunc(t.lease, func() { t.expire(token, u) })
	} else {
		u.expires = time.AfterFunc(settleTime, func() { t.forget(token) })
	}
}

func (t *turns) find(token string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byToken[token]
}

func (t *turns) forget(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u := t.byToken[token]; u != nil {
		u.expires.Stop()
		delete(t.byToken, token)
	}
}

// expire frees the slots of a turn whose lease was not renewed.
func (t *turns) expire(token string, u *turn) {
	if t.free(token, u) {
		t.logger.Warn("fleetpace: the lease of a turn has ended without renewal; its slots are free", "turn", token, "caller", u.caller)
	}
}

// free releases the slots of a turn. It reports false if the turn holds none.
func (t *turns) free(token string, u *turn) bool {
	t.mu.Lock()
	held := u.slots && t.byToken[token] == u
	if held {
		u.slots = false
		u.expires.Stop()
		if u.settles {
			u.expires = time.AfterFunc(settleTime, func() { t.forget(token) })
		} else {
			delete(t.byToken, token)
		}
	}
	t.mu.Unlock()
	if held {
		u.reservation.Release()
		t.mu.Lock()
		t.hold(-1)
		t.mu.Unlock()
	}
	return held
}

// renew renews the lease of a turn. It reports false if the slots are lost. A turn that was granted
// without Redis holds no slots and cannot lose them.
func (t *turns) renew(token string) bool {
	u := t.find(token)
	if u == nil {
		return false
	}
	select {
	case <-u.reservation.Lost():
		t.free(token, u)
		return false
	default:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !u.slots || !u.expires.Stop() { // its lease has just ended
		return false
	}
	u.expires.Reset(t.lease)
	return true
}

// turnRequest is the body of /v1/release and /v1/renew.
type turnRequest struct {
	Turn string `json:"turn"`
}

func (s *Server) release(w http.ResponseWriter, r *http.Request) {
	var q turnRequest
	if !read(w, r, &q) {
		return
	}
	u := s.turns.find(q.Turn)
	if q.Turn == "" {
		answer(w, wrong("turn", "", "must not be empty"))
	} else if u == nil || !s.turns.free(q.Turn, u) {
		answer(w, unknownTurn(q.Turn))
	} else {
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *Server) renew(w http.ResponseWriter, r *http.Request) {
	var q turnRequest
	if !read(w, r, &q) {
		return
	}
	if q.Turn == "" {
		answer(w, wrong("turn", "", "must not be empty"))
	} else if !s.turns.renew(q.Turn) {
		answer(w, unknownTurn(q.Turn))
	} else {
		answer(w, map[string]float64{"lease_ms": millis(s.config.Lease)})
	}
}

func (s *Server) settle(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Turn string `json:"turn"`
		Used []int  `json:"used"`
	}
	if !read(w, r, &q) {
		return
	}
	u := s.turns.toSettle(q.Turn)
	switch {
	case q.Turn == "":
		answer(w, wrong("turn", "", "must not be empty"))
		return
	case len(q.Used) == 0:
		answer(w, wrong("used", nil, "must be one number for each limit"))
		return
	case u == nil:
		answer(w, unknownTurn(q.Turn))
		return
	}
	if err := u.reservation.Settle(r.Context(), q.Used...); err != nil {
		answer(w, problemOf(err, "used"))
		return
	}
	s.turns.settled(q.Turn, u)
	w.WriteHeader(http.StatusNoContent)
}

// toSettle returns a turn whose cost is to be settled, or nil.
func (t *turns) toSettle(token string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u := t.byToken[token]; u != nil && u.settles {
		return u
	}
	return nil
}

// settled notes that the cost of a turn is settled.
func (t *turns) settled(token string, u *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u.settles = false; !u.slots && t.byToken[token] == u {
		u.expires.Stop()
		delete(t.byToken, token)
	}
}

func unknownTurn(token string) problem {
	return problem{
		Status: http.StatusNotFound, Field: "turn", Value: token,
		Detail: "This server does not know the turn: it was released or settled, its lease has ended, or another server granted it.", after: -1,
	}
}

// report logs failures of Redis, at most once a second. It does not log mistakes of callers.
func (s *Server) report(ctx context.Context, err error) {
	if isEnded(err) || problemOf(err, "").Status < http.StatusInternalServerError {
		return
	}
	now := time.Now().Unix()
	if last := s.reported.Load(); last < now && s.reported.CompareAndSwap(last, now) {
		s.config.Logger.WarnContext(ctx, "fleetpace: could not answer a request over HTTP; its client got an error (503)", "error", err)
	}
}
