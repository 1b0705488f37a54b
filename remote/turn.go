package remote

import (
	"context"
	"encoding/base64"
	"encoding/json"
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

// turns are the turns of this server whose costs are to be settled.
type turns struct {
	mu      sync.Mutex
	byToken map[string]*reserve.Reservation
	logger  *slog.Logger
}

// add keeps a turn if it is to be settled.
func (t *turns) add(token string, n need, r *reserve.Reservation) {
	if !n.settles {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byToken) >= mostTurns {
		t.logger.Warn("fleetpace: too many turns wait to be settled; a new turn cannot be settled", "limits", n.turns.String())
		return
	}
	t.byToken[token] = r
	time.AfterFunc(settleTime, func() { t.forget(token) })
}

func (t *turns) find(token string) *reserve.Reservation {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byToken[token]
}

func (t *turns) forget(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byToken, token)
}

// held is what a turn with slots says of itself, so that any server renews and releases it. The name of
// its lease cannot be guessed, so a caller can name no turn of others.
type held struct {
	Lease  reserve.Lease
	Limits []part
}

func (h held) token() string {
	text, _ := json.Marshal(h) // our own types never fail
	return base64.RawURLEncoding.EncodeToString(text)
}

// lend lets a lease hold the slots of a turn, and returns the turn's token; empty if it holds none.
func (s *Server) lend(ctx context.Context, at *place) (string, error) {
	lease, lent, err := at.reservation.Lend(ctx, s.config.Lease)
	if err != nil || !lent {
		return "", err
	}
	return held{lease, at.parts}.token(), nil
}

// heldBy returns the lease of a turn, and what it holds.
func (s *Server) heldBy(token string) (n need, lease reserve.Lease, err error) {
	var h held
	if token == "" {
		return n, lease, wrong("turn", "", "must not be empty")
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || json.Unmarshal(text, &h) != nil {
		return n, lease, unknownTurn(token)
	}
	n, err = s.resolve(&call{Limits: h.Limits}, false)
	return n, h.Lease, err
}

// turnRequest is the body of /v1/release and /v1/renew.
type turnRequest struct {
	Turn string `json:"turn"`
}

// endLease frees the slots of a turn.
func (s *Server) endLease(ctx context.Context, token string) error {
	n, lease, err := s.heldBy(token)
	if err != nil {
		return err
	}
	ended, err := n.turns.EndLease(ctx, lease, n.costs...)
	if err == nil && !ended {
		err = unknownTurn(token)
	}
	return err
}

func (s *Server) release(w http.ResponseWriter, r *http.Request) {
	var q turnRequest
	if !read(w, r, &q) {
		return
	}
	err := s.endLease(r.Context(), q.Turn)
	done(w, err, "turn")
}

func (s *Server) renew(w http.ResponseWriter, r *http.Request) {
	var q turnRequest
	if !read(w, r, &q) {
		return
	}
	n, lease, err := s.heldBy(q.Turn)
	renewed := false
	if err == nil {
		renewed, err = n.turns.Renew(r.Context(), lease, s.config.Lease, n.costs...)
	}
	switch {
	case err != nil:
		answer(w, problemOf(err, "turn"))
	case !renewed:
		answer(w, unknownTurn(q.Turn))
	default:
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
	given := s.turns.find(q.Turn)
	switch {
	case q.Turn == "":
		answer(w, wrong("turn", "", "must not be empty"))
		return
	case len(q.Used) == 0:
		answer(w, wrong("used", nil, "must be one number for each limit"))
		return
	case given == nil:
		answer(w, unknownTurn(q.Turn))
		return
	}
	if err := given.Settle(r.Context(), q.Used...); err != nil {
		answer(w, problemOf(err, "used"))
		return
	}
	s.turns.forget(q.Turn)
	w.WriteHeader(http.StatusNoContent)
}

func unknownTurn(token string) problem {
	return problem{
		Status: http.StatusNotFound, Field: "turn", Value: token,
		Detail: "The turn holds no slots any more, or its cost was settled; only the server that granted a turn can settle it.", after: -1,
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
