package server

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// granted is what a turn says of itself, so that any server settles, renews and releases it. The name of
// its lease cannot be guessed, so a caller can release no turn of others.
type granted struct {
	call
	Lease   reserve.Lease
	Settles string  // the call to settle, as Redis knows it
	Probes  []int64 // the hard stops that the call probes
}

// grant returns the token of a turn whose call settles or holds slots, and how long a lease holds them. The token is
// empty for other turns.
func (s *Server) grant(ctx context.Context, p *poll, at *place) (token string, lease time.Duration, err error) {
	g := granted{call: at.call}
	if at.slots {
		var lent bool
		l := reserve.Lease{Name: p.attempt, Doing: doing(at.caller, at.id)}
		g.Lease, lent, err = at.reservation.Lend(ctx, l, s.config.Lease)
		if err == nil && !lent && p.attempt != "" { // perhaps the lease of another turn has this name
			l.Name = ""
			g.Lease, lent, err = at.reservation.Lend(ctx, l, s.config.Lease)
		}
		if err != nil {
			return "", 0, err
		}
		if lent {
			lease = s.config.Lease
		}
	}
	if at.settles {
		g.Settles = at.reservation.CallID()
	}
	g.Probes = at.reservation.Stops()
	if lease == 0 && !at.settles && g.Probes == nil {
		return "", 0, nil
	}
	text, _ := json.Marshal(g) // our own types never fail
	return base64.RawURLEncoding.EncodeToString(text), lease, nil
}

// granted reads the token of a turn, and returns what the turn needs.
func (s *Server) granted(token string) (n need, g granted, err error) {
	if token == "" {
		return n, g, wrong("turn", "", "must not be empty")
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || json.Unmarshal(text, &g) != nil {
		return n, g, unknownTurn(token)
	}
	n, err = s.resolve(&g.call, true)
	return n, g, err
}

// turnRequest is the body of /v1/release and /v1/renew.
type turnRequest struct {
	Turn string `json:"turn"`
}

// endLease frees the slots of a turn.
func (s *Server) endLease(ctx context.Context, token string) error {
	n, g, err := s.granted(token)
	if err != nil {
		return err
	}
	ended, err := n.turns.EndLease(ctx, g.Lease, n.costs...)
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
	n, g, err := s.granted(q.Turn)
	renewed := false
	if err == nil {
		renewed, err = n.turns.Renew(r.Context(), g.Lease, s.config.Lease, n.costs...)
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
		Turn   string `json:"turn"`
		Used   []int  `json:"used"`
		Served bool   `json:"served"`
	}
	if !read(w, r, &q) {
		return
	}
	n, g, err := s.granted(q.Turn)
	switch {
	case q.Turn != "" && len(q.Used) == 0:
		err = wrong("used", nil, "must be one number for each limit")
	case err == nil && (n.settles || g.Probes == nil):
		err = n.turns.SettleCall(r.Context(), g.Settles, n.costs, q.Used)
	}
	if err == nil && g.Probes != nil && q.Served && s.tokens.may(r)&operates != 0 { // anybody can write a token that probes
		err = n.turns.Served(r.Context(), g.Probes)
	}
	done(w, err, "used")
}

func unknownTurn(token string) problem {
	return problem{
		Status: http.StatusNotFound, Field: "turn", Value: token,
		Detail: "The turn holds no slots any more, or its limits have no slots and do not settle.", after: -1,
	}
}

// report logs failures of Redis. Their requests got errors.
func (s *Server) report(ctx context.Context, c caller, err error) {
	s.log(ctx, c, "could not answer a request over HTTP; its client got an error (503)", err)
}

// log logs failures of Redis, at most once a second. It does not log mistakes of callers.
func (s *Server) log(ctx context.Context, c caller, what string, err error) {
	if isEnded(err) || errors.Is(err, errEnding) || problemOf(err, "").Status < http.StatusInternalServerError {
		return
	}
	now := time.Now().Unix()
	if last := s.reported.Load(); last < now && s.reported.CompareAndSwap(last, now) {
		of := []any{"error", err}
		if c != (caller{}) {
			of = append(of, "caller", cmp.Or(c.name, c.address))
		}
		s.config.Logger.WarnContext(ctx, "fleetpace: "+what, of...)
	}
}
