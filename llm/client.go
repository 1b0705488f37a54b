package llm

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/transport"
)

type estimateKey struct{}

// Client returns an HTTP client for the provider's API, or for an SDK of it. Each POST, and each request to
// change the protocol (Upgrade), waits for its turn, and is settled by what its response says, also in streams. Requests for files,
// uploads, batches, cancelling and counting tokens pass at once. So do other methods: the limits do not count them.
//
// The base sends the requests; nil: a new client. If the base has
// a Timeout, it includes the wait for the turn. A JSON body without [http.Request.GetBody] is read before the wait, up to
// 8 MiB: the estimate needs it, and the body can then be sent again.
//
// A timeout of the SDK for each request includes the wait, too: set it above the longest wait. A request
// that AWS has signed fails after 4 minutes of waiting, because its signature expires soon: use
// fleetaws.Turns, or [Set.Acquire]. Failures
// of package reserve, such as [ErrExhausted], are in the chain of the client's errors.
func (s *Set) Client(base *http.Client) *http.Client {
	of := http.Client{}
	if base != nil {
		of = *base
	}
	paced, err := transport.New(transport.Config{
		Base: sending{of.Transport}, API: s.preset.API, Logger: s.config.Logger, Retry: transport.Retry{Max: s.config.Retries}, Learn: true, Levels: true, Share: s.config.Share,
		Choose: func(r *http.Request) (transport.Need, error) {
			if !generates(r) {
				return transport.Need{}, nil
			}
			need, _, err := s.need(r.Context(), estimateOf(r))
			return need, err
		},
		Tokens: func(r *http.Response, u Usage) []int {
			return s.ended(r, u, false)
		},
		TokensUnstated: s.preset.fixed(),
		Estimate:       s.again,
		Early: func(r *http.Response, u Usage) []int {
			return s.ended(r, u, true)
		},
	})
	if err != nil {
		panic(err) // the Config was checked by New
	}
	of.Transport = estimating{s, paced}
	return &of
}

func estimateOf(r *http.Request) Estimate {
	e, _ := r.Context().Value(estimateKey{}).(Estimate)
	return e
}

// estimating estimates what a request costs, once for all of its attempts.
type estimating struct {
	set *Set
	*transport.Transport
}

// signedFor is how long a request with a signature of AWS may wait: the signature is good for 5 minutes.
const signedFor = 4 * time.Minute

func (e estimating) RoundTrip(r *http.Request) (*http.Response, error) {
	if !generates(r) {
		return e.Transport.RoundTrip(r)
	}
	r, err := readable(r)
	if err != nil {
		return nil, err
	}
	ctx := context.WithValue(r.Context(), estimateKey{}, e.set.estimate(r))
	if !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256") {
		return e.send(r.WithContext(ctx))
	}
	timeout := fmt.Errorf("llm: a request with a signature of AWS has waited for %v, and the signature ends soon: use fleetaws.Turns, or take the turn with Set.Acquire before the request is signed", signedFor)
	signed, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(signedFor, func() { cancel(timeout) })
	defer timer.Stop()
	response, err := e.send(r.WithContext(context.WithValue(signed, timerKey{}, timer)))
	if err != nil {
		if context.Cause(signed) == timeout { //nolint:errorlint // the very one
			err = timeout
		}
		cancel(nil)
		return response, err
	}
	response.Body = endingBody{response.Body, cancel}
	return response, nil
}

// send sends a request when it has its turn.
func (e estimating) send(r *http.Request) (*http.Response, error) {
	response, err := e.Transport.RoundTrip(r)
	if r.GetBody == nil || !e.set.follows(r.Context(), err) {
		return response, err
	}
	if r.Body, err = r.GetBody(); err != nil {
		return nil, err
	}
	return e.send(r)
}

// endingBody ends the context of its request.
type endingBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b endingBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}

type timerKey struct{}

// sending ends the timers of a request that has its turn.
type sending struct{ base http.RoundTripper }

func (s sending) RoundTrip(r *http.Request) (*http.Response, error) {
	if timer, ok := r.Context().Value(timerKey{}).(*time.Timer); ok {
		timer.Stop()
	}
	if w, ok := r.Context().Value(waitingKey{}).(*waiting); ok {
		w.sent.Store(true)
		w.timer.Stop()
	}
	if s.base == nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	return s.base.RoundTrip(r)
}

func (s sending) CloseIdleConnections() {
	if closer, ok := s.base.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// needs returns how many limits the turn of a request has.
func (s *Set) needs(r *http.Request) int {
	if wishesOf(r.Context()).urgent {
		return len(s.limits)
	}
	return len(s.limits) + len(s.behind)
}

// again returns the costs of a request that has waited, if its estimate would differ by more than an eighth now: other
// calls have ended since.
func (s *Set) again(r *http.Request) []int {
	if s.config.Estimate != nil || s.preset.fixed() {
		return nil
	}
	e := estimateOf(r)
	now := e
	s.learns.estimate(r.Context(), &now, cmp.Or(e.Max, s.preset.MostOutput, mostOutput))
	costs, changed := make([]int, s.needs(r)), false
	for i, of := range slices.Concat(s.ofs, s.behOfs)[:len(costs)] {
		was, is := s.reserved(of, e), s.reserved(of, now)
		if costs[i] = -1; max(was-is, is-was) > was/8 {
			costs[i], changed = max(1, is), true
		}
	}
	if !changed {
		return nil
	}
	return costs
}

// statusOverloaded is the status of Anthropic for an overloaded API.
const statusOverloaded = 529

// ended returns what a request has used at the limits of its turn, and learns from it.
func (s *Set) ended(r *http.Response, u Usage, early bool) []int {
	e := estimateOf(r.Request)
	n := s.needs(r.Request)
	switch {
	case r.StatusCode == http.StatusServiceUnavailable || r.StatusCode == statusOverloaded:
		return nil // else an overloaded provider would get more calls than others
	case r.StatusCode >= http.StatusBadRequest:
		return s.failed(n, e)
	}
	if !early && u.Known {
		s.learn(e, u)
	}
	return s.used(n, e, u, early)
}

// learn takes in what a call has used.
func (s *Set) learn(e Estimate, u Usage) {
	prompt := u.Input + u.CacheWrite
	if s.preset.CacheCounts {
		prompt += u.CacheRead
	}
	if s.learns.learn(e, prompt, min(u.Output, cmp.Or(e.Max, s.preset.MostOutput, mostOutput)), u.Complete) {
		s.background(s.learns.exchange)
	}
}
