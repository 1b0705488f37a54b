package inbound

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// Middleware limits the requests of a handler, by a [reserve.Limiter] or, where a request
// needs several limits at once, by a [reserve.Joint]. Limits of slots are refused. The
// function that it returns may wrap several handlers, which then share the limits. It is
// safe for concurrent use, and so are the handlers.
//
// The limits stay the caller's: close them after the server. The error is an [ErrInvalid]
// that names the field.
func Middleware(turns reserve.Turns, config Config) (func(http.Handler) http.Handler, error) {
	if turns == nil {
		return nil, invalid("turns", "is nil: make a limiter with reserve.New")
	}
	m := &middleware{limits: turns.Limits()}
	if _, err := reserve.All(m.limits...); err != nil {
		return nil, fmt.Errorf("inbound: %w turns: %w", ErrInvalid, err)
	}
	for _, l := range m.limits {
		if l.Limit().Kind() == reserve.KindSlots {
			return nil, invalid("turns", "has slots, of %q: what serves a request does not release them; use a limit of another kind", l)
		}
	}
	m.config = config.withDefaults(len(m.limits))
	if err := m.config.validate(len(m.limits)); err != nil {
		return nil, err
	}
	m.troubles.logger = m.config.Logger
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
	}, nil
}

type middleware struct {
	limits   []*reserve.Limiter
	config   Config
	figures  figures
	troubles troubles
}

func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	need, err := m.needOf(r)
	for i, l := range m.limits {
		if k := slices.Index(need.of, i); k >= 0 && need.turns != nil { // the limit of the key, which may have a plan
			l = need.turns.Limits()[k]
		}
		newQuota(m.config.Policies[i], l.Limit()).setPolicy(w.Header(), m.config.Headers)
	}
	if err == nil && need.turns == nil {
		next.ServeHTTP(w, r)
		return
	}
	if err == nil {
		err = m.wait(r.Context(), need)
	}
	if err != nil {
		m.fail(w, r, next, need, err)
		return
	}
	if m.config.EveryAnswer {
		m.tell(w, r, need)
	}
	next.ServeHTTP(w, r)
}

// answerTime is how long Redis may take beyond what the request may wait.
const answerTime = time.Second

// wait returns nil when the request has its turn. If the turn is too far away, the request does not
// join the queue.
func (m *middleware) wait(ctx context.Context, need need) error {
	now := time.Now()
	until := now.Add(m.config.MaxWait)
	bounded, cancel := context.WithDeadline(ctx, until.Add(answerTime))
	defer cancel()
	if own, ok := ctx.Deadline(); ok && own.Before(until) {
		until = own
	}
	err := need.turns.Wait(turnBy{bounded, now}, need.costs...)
	if late, ok := tooLate(err); ok && m.config.MaxWait > 0 && !time.Now().Add(late).After(until) {
		err = need.turns.Wait(turnBy{bounded, until}, need.costs...)
	}
	if errors.Is(err, reserve.ErrExhausted) { // a stop has ended the wait: a request that does not wait gets its end
		err = need.turns.Wait(turnBy{bounded, time.Now()}, need.costs...)
	}
	return err
}

// turnBy is a context with the latest moment of the turn. It ends later than that, because the turn
// may be now, and Redis needs a moment to say so.
//
// The refusal then says how long the call would have waited, which Allow does not.
type turnBy struct {
	context.Context
	at time.Time
}

func (c turnBy) Deadline() (time.Time, bool) { return c.at, true }

// tooLate is the wait of a call whose turn would come too late, or that must not wait.
func tooLate(err error) (time.Duration, bool) {
	var typed *reserve.Error
	if (errors.Is(err, reserve.ErrWouldMissDeadline) || errors.Is(err, reserve.ErrQueueFull)) && errors.As(err, &typed) {
		return typed.Wait, true
	}
	return 0, false
}

// fail answers a request that got no turn.
func (m *middleware) fail(w http.ResponseWriter, r *http.Request, next http.Handler, need need, err error) {
	late, ok := tooLate(err)
	switch {
	case ok:
		w.Header().Set("Retry-After", strconv.FormatInt(max(1, seconds(late)), 10))
		m.tellRefused(w, r, need, late)
		m.config.Refuse.ServeHTTP(w, r)
	case errors.Is(err, errKey):
		plain(w, http.StatusBadRequest, "The request does not say whose it is.")
	case errors.Is(err, reserve.ErrExceedsBurst):
		plain(w, http.StatusBadRequest, "The request costs more than the limit ever allows at once. Split it.")
	case errors.Is(err, reserve.ErrInvalid):
		m.troubles.report(r.Context(), err)
		plain(w, http.StatusInternalServerError, "The limit of this API is set up wrongly.")
	case r.Context().Err() != nil: // nobody reads it, unless a proxy or a TimeoutHandler does
		plain(w, http.StatusServiceUnavailable, "The request has ended before its turn.")
	default:
		m.troubles.report(r.Context(), err)
		if m.config.PassOnError {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Retry-After", "1")
		plain(w, http.StatusServiceUnavailable, "The limit of this API can not be looked up now.")
	}
}
