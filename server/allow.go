package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fleetpace/fleetpace/inbound"
	"github.com/fleetpace/fleetpace/reserve"
)

// mostAhead is the most turns that one request takes.
const mostAhead = 10_000

// allowAnswer is the body of a response of /v1/allow.
type allowAnswer struct {
	Allowed    bool    `json:"allowed"`
	Taken      int     `json:"taken"`
	Valid      float64 `json:"valid_ms,omitempty"`
	Remaining  *int64  `json:"remaining,omitempty"`
	Limit      string  `json:"limit"`
	RetryAfter float64 `json:"retry_after"`
	*stop
}

func (s *Server) allow(w http.ResponseWriter, r *http.Request) {
	var q struct {
		call
		Ahead *int `json:"ahead"`
	}
	if !read(w, r, &q) {
		return
	}
	n, err := s.resolve(&q.call, true)
	ahead := 1
	if err == nil && q.Ahead != nil {
		ahead = *q.Ahead
		err = validateAhead(ahead, n)
	}
	if err == nil && n.slots {
		err = wrong("limits", nil, "must have no slots, because this request cannot release them: use /v1/wait")
	}
	var body allowAnswer
	var wait time.Duration
	if err == nil {
		body.Taken, wait, err = take(r.Context(), n, ahead)
	}
	if err != nil {
		s.report(r.Context(), whoCalls(r), err)
		answer(w, problemOf(err, "limits"))
		return
	}
	body.Allowed, body.RetryAfter = body.Taken > 0, millis(wait)/1000
	inForce := s.tell(w, r, n, &q.call, &body)
	if q.Ahead != nil && body.Allowed && inForce != nil { // without the limit in force it is unknown how long they may be kept
		body.Valid = millis(valid(*inForce, body.Taken*n.costs[0]))
	}
	status := http.StatusOK
	if !body.Allowed {
		body.stop = stopOf(n.turns.Stopped())
		status = http.StatusTooManyRequests
		retryAfter(w, max(wait, time.Second))
	}
	write(w, status, "application/json", body)
}

func validateAhead(ahead int, n need) error {
	if ahead < 1 || ahead > mostAhead {
		return wrong("ahead", ahead, fmt.Sprintf("must be from 1 to %d, got %d", mostAhead, ahead))
	}
	all := n.turns.Limits()
	if kind := all[0].Limit().Kind(); len(all) > 1 || kind != reserve.KindPaced && kind != reserve.KindQuota {
		return wrong("ahead", ahead, "needs one limit, and a paced one or a quota: leave it out")
	}
	return nil
}

// take takes up to `ahead` turns that may be used now. If there is no turn, it returns how long the
// first one would have to wait.
func take(ctx context.Context, n need, ahead int) (taken int, wait time.Duration, err error) {
	if ahead > 1 {
		cost := n.costs[0]
		most := min(ahead, n.turns.Limits()[0].Limit().MaxBurst()/cost)
		if wait, err = now(ctx, n.turns, most*cost); err != nil || wait == 0 {
			return most, 0, err
		}
		states, err := n.turns.States(ctx)
		if err != nil {
			return 0, 0, err
		}
		if some := min(most-1, int(states[0].Stored)/cost); some > 1 {
			if wait, err = now(ctx, n.turns, some*cost); err != nil || wait == 0 {
				return some, 0, err
			}
		}
	}
	if wait, err = now(ctx, n.turns, n.costs...); err != nil || wait > 0 {
		return 0, wait, err
	}
	return 1, 0, nil
}

// now takes a turn that may be used now, or returns how long it would have to wait.
func now(ctx context.Context, turns *reserve.Joint, costs ...int) (time.Duration, error) {
	bounded, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	err := turns.Wait(turnNow{bounded, time.Now()}, costs...)
	var typed *reserve.Error
	if errors.Is(err, reserve.ErrWouldMissDeadline) && errors.As(err, &typed) {
		return max(typed.Wait, time.Millisecond), nil
	}
	return 0, err
}

// answerTime is how long Redis may take to answer.
const answerTime = 2 * time.Second

// turnNow is a context that ends later than its Deadline, which is now. So only a turn that may be
// used now is taken, and Redis has time to answer how long the call would have to wait.
type turnNow struct {
	context.Context
	at time.Time
}

func (c turnNow) Deadline() (time.Time, bool) { return c.at, true }

// valid is how long prefetched permits may be used: for a quota, until its window ends; for a paced
// limit, the time in which that many permits refill.
func valid(limit reserve.Limit, permits int) time.Duration {
	if limit.Kind() == reserve.KindQuota {
		_, end := limit.Window(time.Now())
		return time.Until(end)
	}
	return time.Duration(float64(permits) / limit.Rate() * float64(time.Second))
}

// tell adds the state of the limits to a response, and returns the first limit as it is in force.
// It returns nil if Redis does not answer.
func (s *Server) tell(w http.ResponseWriter, r *http.Request, n need, c *call, body *allowAnswer) *reserve.Limit {
	all := n.turns.Limits()
	body.Limit = all[0].Limit().String()
	states, err := n.turns.States(r.Context())
	if err != nil {
		return nil
	}
	for i := range all {
		quota := inbound.NewQuota(c.Limits[i].Name, states[i].Limit, states[i])
		quota.SetHeaders(w.Header(), inbound.HeadersIETF)
		if body.Remaining == nil || quota.Remaining < *body.Remaining {
			body.Remaining, body.Limit = &quota.Remaining, states[i].Limit.String()
		}
	}
	return &states[0].Limit
}
