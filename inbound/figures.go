package inbound

import (
	"context"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// figures reads the state of limits.
//
// The limiter's circuit breaker does not apply to State, and figures are not worth waiting for.
// After a failure, one request per second tries again, and the others get no figures.
type figures struct {
	pause atomic.Int64 // no figures until this moment, in Unix nanoseconds; 0: Redis answers
}

const figuresPause = time.Second

// ask reports false if there are no figures.
func (f *figures) ask(ctx context.Context, turns *reserve.Joint) ([]reserve.State, bool) {
	now := time.Now()
	if until := f.pause.Load(); until != 0 {
		if now.UnixNano() < until || !f.pause.CompareAndSwap(until, now.Add(figuresPause).UnixNano()) {
			return nil, false
		}
	}
	states, err := turns.States(ctx)
	switch {
	case err == nil:
		f.pause.Store(0)
	case ctx.Err() == nil:
		f.pause.Store(time.Now().Add(figuresPause).UnixNano())
	}
	return states, err == nil
}

// tell sets the figures of an answer.
func (m *middleware) tell(w http.ResponseWriter, r *http.Request, n need) {
	setFigures(w.Header(), m.config.Headers, m.quotas(r.Context(), n), math.MaxInt64)
}

// quotas returns the limits of a request; none if Redis does not answer, or no header needs them.
func (m *middleware) quotas(ctx context.Context, n need) (all []Quota) {
	if m.config.Headers == HeadersNone {
		return nil
	}
	states, ok := m.figures.ask(ctx, n.turns)
	if !ok {
		return nil
	}
	for i, l := range n.turns.Limits() {
		all = append(all, NewQuota(n.policies[i], l.Limit(), states[i]))
	}
	return all
}

// tellRefused sets the figures of a refusal. For one limit, the wait says how many permits less
// than the cost are stored. For a quota and a rolling limit it does not, because their permits come
// back together.
func (m *middleware) tellRefused(w http.ResponseWriter, r *http.Request, n need, wait time.Duration) {
	limit := n.turns.Limits()[0].Limit()
	together := limit.Kind() == reserve.KindQuota || limit.Kind() == reserve.KindRolling
	var all []Quota
	switch {
	case len(n.costs) == 1 && (n.costs[0] == 1 || !together):
		all = []Quota{refusedQuota(n.policies[0], limit, n.costs[0], wait)}
	case m.config.EveryAnswer:
		all = m.quotas(r.Context(), n)
	}
	setFigures(w.Header(), m.config.Headers, all, wait)
}
