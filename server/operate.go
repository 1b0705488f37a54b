package server

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

func (s *Server) leave(w http.ResponseWriter, r *http.Request) {
	var q struct {
		call
		ID string `json:"id"`
	}
	if !read(w, r, &q) {
		return
	}
	err := validateID(q.ID)
	if err == nil && q.ID == "" {
		err = wrong("id", "", "must not be empty")
	}
	var n need
	if err == nil {
		n, err = s.resolve(&q.call, false)
	}
	if err == nil {
		id := prefix + q.ID
		if s.places.known(id) {
			var at *place
			p := newPoll(r.Context())
			defer p.end(nil)
			if at, err = s.places.claim(p, id, n); err == nil {
				s.places.drop(at)
				if at.reservation != nil {
					err = at.reservation.Cancel(r.Context())
				}
			}
		}
		if err == nil {
			err = n.turns.CancelBooking(r.Context(), id, n.costs...)
		}
	}
	done(w, err, "limits")
}

// longestReason is the most that reserve.Limiter.Pause accepts, in bytes.
const longestReason = 256

// longestOfTurns is the longest pause by a token without the right operate, such as for a Retry-After. It is as long as
// by default in package transport.
const longestOfTurns = time.Hour

func (s *Server) pause(w http.ResponseWriter, r *http.Request) {
	var q struct {
		call
		For    string     `json:"for"`
		Until  *time.Time `json:"until"`
		Reason string     `json:"reason"`
	}
	if !read(w, r, &q) {
		return
	}
	n, err := s.resolve(&q.call, false)
	if err == nil && len(q.Reason) > longestReason {
		err = wrong("reason", nil, fmt.Sprintf("must have at most %d bytes, got %d", longestReason, len(q.Reason)))
	}
	var pause time.Duration
	longest := time.Duration(math.MaxInt64)
	if s.tokens.may(r)&operates == 0 {
		longest = longestOfTurns
	}
	if err == nil {
		pause, err = durationOf("for", q.For)
	}
	if err == nil && (q.For == "") == (q.Until == nil) {
		err = wrong("for", q.For, "must be given, or until, and not both")
	}
	switch {
	case err != nil:
	case q.Until != nil && time.Until(*q.Until) <= longest:
		err = n.turns.PauseUntil(r.Context(), *q.Until, q.Reason)
	case q.Until != nil:
		err = n.turns.Pause(r.Context(), longest, q.Reason)
	default:
		err = n.turns.Pause(r.Context(), min(pause, longest), q.Reason)
	}
	done(w, err, "reason")
}

func (s *Server) resume(w http.ResponseWriter, r *http.Request) {
	var q call
	if !read(w, r, &q) {
		return
	}
	n, err := s.resolve(&q, false)
	if err == nil {
		err = n.turns.Resume(r.Context())
	}
	done(w, err, "limits")
}

// done responds that something was done, or what went wrong.
func done(w http.ResponseWriter, err error, field string) {
	if err != nil {
		answer(w, problemOf(err, field))
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// listed is a limit of the file.
type listed struct {
	Name  string `json:"name"`
	Limit string `json:"limit"`
	Key   string `json:"key,omitempty"`
	Flow  string `json:"flow,omitempty"`
	Share string `json:"share,omitempty"` // the earlier name of flow
}

func (s *Server) list(w http.ResponseWriter, _ *http.Request) {
	all := struct {
		Limits []listed `json:"limits"`
	}{[]listed{}}
	for _, name := range s.limits.Names() {
		if about, err := s.limits.About(name); err == nil { // an error: the limit has just been removed
			all.Limits = append(all.Limits, listed{name, about.Limit.String(), about.Key, about.Flow, about.Flow})
		}
	}
	answer(w, all)
}

// ofPath returns the limit that the path of a request names.
func (s *Server) ofPath(r *http.Request) (*reserve.Limiter, error) {
	name := r.PathValue("name")
	var key json.RawMessage
	if given := r.URL.Query().Get("key"); given != "" {
		key, _ = json.Marshal(given) // a text never fails
	}
	l, _, err := s.limiter("", name, key, "", false)
	return l, err
}

// state is the state of a limit.
type state struct {
	Name        string   `json:"name"`
	Limit       string   `json:"limit"`
	Set         bool     `json:"set"`
	SetFor      float64  `json:"set_for_ms,omitempty"`
	Stored      float64  `json:"stored"`
	Wait        *float64 `json:"wait_ms,omitempty"` // nil: nobody knows
	Waiting     int64    `json:"waiting"`
	Booked      int64    `json:"booked"`
	Processes   int64    `json:"processes"`
	Paused      float64  `json:"paused_ms"`
	PauseReason string   `json:"pause_reason,omitempty"`
	Holders     []holder `json:"holders,omitempty"`
}

type holder struct {
	Process string    `json:"process"`
	Doing   string    `json:"doing,omitempty"`
	Slots   int       `json:"slots"`
	Since   time.Time `json:"since"`
}

func (s *Server) show(w http.ResponseWriter, r *http.Request) {
	l, err := s.ofPath(r)
	if err != nil {
		answer(w, problemOf(err, "key"))
		return
	}
	now, err := l.State(r.Context())
	if err != nil {
		answer(w, problemOf(err, "name"))
		return
	}
	body := state{
		Name: l.String(), Limit: now.Limit.String(), Set: now.Set, SetFor: millis(now.SetFor), Stored: now.Stored,
		Waiting: now.Waiting, Booked: now.Booked, Processes: now.Processes, Paused: millis(now.Paused), PauseReason: now.PauseReason,
	}
	if now.Limit.Kind() != reserve.KindSlots || now.Stored >= 1 {
		wait := millis(now.Wait)
		body.Wait = &wait
	}
	for _, h := range now.Holders {
		body.Holders = append(body.Holders, holder{h.Process, h.Doing, h.Slots, h.Since.UTC().Round(time.Millisecond)})
	}
	answer(w, body)
}

func (s *Server) set(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Limit string `json:"limit"`
		For   string `json:"for"`
	}
	if !read(w, r, &q) {
		return
	}
	l, err := s.ofPath(r)
	var limit reserve.Limit
	if err == nil {
		if limit, err = reserve.ParseLimit(q.Limit); err != nil {
			err = wrong("limit", q.Limit, "is not a limit: "+err.Error())
		}
	}
	var expiry time.Duration
	if err == nil {
		expiry, err = durationOf("for", q.For)
	}
	if err == nil {
		err = l.SetLimit(r.Context(), limit, expiry)
	}
	done(w, err, "limit")
}

func (s *Server) reset(w http.ResponseWriter, r *http.Request) {
	l, err := s.ofPath(r)
	if err == nil {
		err = l.ResetLimit(r.Context())
	}
	done(w, err, "name")
}
