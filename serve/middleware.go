package serve

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// Middleware limits the requests of a handler. What it returns may be used for
// several handlers, which share the limit, and by many goroutines at a time. The
// limiter stays the caller's: close it after the server. The error is an
// [ErrInvalid] that names the field.
func Middleware(limiter *reserve.Limiter, config Config) (func(http.Handler) http.Handler, error) {
	if limiter == nil {
		return nil, invalid("limiter", "is nil: make one with reserve.New")
	}
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	m := &middleware{limiter: limiter, config: config, limit: limiter.Limit()}
	m.troubles.logger = config.Logger
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
	}, nil
}

type middleware struct {
	limiter  *reserve.Limiter
	config   Config
	limit    reserve.Limit
	figures  figures
	troubles troubles
}

func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	newQuota(m.config.Policy, m.limit, 0, 0).setPolicy(w.Header(), m.config.Headers)
	cost := m.config.Cost(r)
	if cost == 0 {
		next.ServeHTTP(w, r)
		return
	}
	limiter, err := m.limiterFor(r)
	if err == nil {
		err = m.wait(r.Context(), limiter, cost)
	}
	if err != nil {
		m.fail(w, r, next, cost, err)
		return
	}
	if m.config.EveryAnswer && m.config.Headers != HeadersNone {
		if state, ok := m.figures.ask(r.Context(), limiter); ok {
			NewQuota(m.config.Policy, m.limit, state).setFigures(w.Header(), m.config.Headers, time.Now())
		}
	}
	next.ServeHTTP(w, r)
}

// answerTime is how long Redis may take beyond what the request may wait.
const answerTime = time.Second

// wait returns nil when the request has its turn.
func (m *middleware) wait(ctx context.Context, limiter *reserve.Limiter, cost int) error {
	until := time.Now().Add(m.config.MaxWait)
	bounded, cancel := context.WithDeadline(ctx, until.Add(answerTime))
	defer cancel()
	if own, ok := ctx.Deadline(); ok && own.Before(until) {
		until = own
	}
	return limiter.WaitN(turnBy{bounded, until}, cost)
}

// turnBy is a context that says when the turn has to come at the latest, and ends
// later: the turn may be now, and Redis needs a moment to say so.
//
// This way the call is refused with the wait that it would have had, and takes no
// number. Allow does not tell the wait; and a number that is taken, to be given back,
// costs another round trip and stands in the way of others until then.
type turnBy struct {
	context.Context
	at time.Time
}

func (c turnBy) Deadline() (time.Time, bool) { return c.at, true }

// fail answers a request that has no turn.
func (m *middleware) fail(w http.ResponseWriter, r *http.Request, next http.Handler, cost int, err error) {
	var typed *reserve.Error
	switch {
	case errors.Is(err, reserve.ErrWouldMissDeadline) && errors.As(err, &typed):
		w.Header().Set("Retry-After", strconv.FormatInt(max(1, seconds(typed.Wait)), 10))
		refusedQuota(m.config.Policy, m.limit, cost, typed.Wait).setFigures(w.Header(), m.config.Headers, time.Now())
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
