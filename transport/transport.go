package transport

import (
	"container/list"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/internal/meter"
	"github.com/fleetpace/fleetpace/transport/headers"
)

// Transport is an [http.RoundTripper] that takes a turn before every attempt, and pauses or changes
// the limits as the responses say. Make one with New and keep it for as long as its client. It is
// safe for concurrent use if its limiters and its Base are.
type Transport struct {
	config  Config
	always  *call    // what every request needs; nil: Config.Choose decides
	learner *learner // nil without Config.Learn
	levels  *levels  // nil without Config.Levels

	backoffs *backoffs

	unsettled sync.Once // for the warning that costs cannot be settled
}

// New makes a Transport. The error is an ErrInvalid that names the field.
func New(config Config) (*Transport, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	t := &Transport{config: config.withDefaults()}
	t.backoffs = newBackoffs(t.config.MaxPause)
	if config.Limiter != nil {
		var err error
		if t.always, err = (Need{Limiter: config.Limiter, Adapt: config.Adapt}).call(); err != nil {
			return nil, err
		}
	}
	if config.Learn {
		t.learner = newLearner(t.config.Ceiling, t.config.Share, t.config.MaxPause, t.config.Logger)
	}
	if config.Levels {
		t.levels = &levels{underWay: map[string]*list.List{}, learner: t.learner}
	}
	return t, nil
}

// RoundTrip sends the request when it has its turn. It returns every response, also a refusal,
// without an error. Errors of the limiter and of the Base are returned unchanged, so that errors.Is
// works and the client recognizes them, such as a deadline. An error of Config.Choose is wrapped.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	c, err := t.choose(request)
	if err != nil {
		closeBody(request.Body)
		return nil, fmt.Errorf("transport: the turn of %s %s: %w", request.Method, request.URL.Redacted(), err)
	}
	if c == nil {
		return t.config.Base.RoundTrip(request)
	}
	body := request.Body
	for retries := 0; ; retries++ {
		s, err := t.attempt(request, body, c)
		if err != nil {
			return nil, err
		}
		advice := t.read(s.Response)
		wait := t.hear(request.Context(), s, c, advice)
		if retries >= t.config.Retry.Max || !t.config.Retry.repeats(request, s.Response, advice.Advice, wait.asked) {
			t.steer(s.Response, advice, wait)
			return s.Response, nil
		}
		if body, err = bodyAgain(request); err != nil {
			return s.Response, nil //nolint:nilerr // the caller gets the response; it cannot be retried
		}
		discard(s.Response)
		if err := wait.sleep(request.Context()); err != nil {
			closeBody(body)
			return nil, err
		}
	}
}

// choose returns what a request needs. It returns nil if the request needs no turn.
func (t *Transport) choose(request *http.Request) (*call, error) {
	w := wishesOf(request.Context())
	need := Need{Limiter: t.config.Limiter, Adapt: t.config.Adapt}
	if t.always != nil && w == (wishes{}) {
		return t.always, nil
	}
	var err error
	if t.always == nil {
		if need, err = t.config.Choose(request); err != nil || need.Limiter == nil {
			return nil, err
		}
	}
	if need.Adapt != nil && t.learner != nil {
		return nil, invalid("Need.Adapt", "must not be set together with Config.Learn: both would set the limit")
	}
	if need, err = need.wished(w); err != nil {
		return nil, err
	}
	return need.call()
}

// read returns what a response says. A refusal may be in its body.
func (t *Transport) read(response *http.Response) verdict {
	advice := verdict{Advice: headers.Read(response.StatusCode, response.Header, time.Now())}
	t.classify(response, &advice)
	if t.config.Refused == nil || advice.Refused || advice.Cached {
		return advice
	}
	if refused, after := t.config.Refused(response); refused {
		advice.Refused, advice.Named, advice.After, advice.Reason = true, after > 0, max(0, after), "refused in its body"
	}
	return advice
}

// hear passes on what a response says: the used permits, the result of the call, and its pauses.
func (t *Transport) hear(ctx context.Context, s sent, c *call, advice verdict) pause {
	used := t.used(s, c) // it may read the body, which may take long
	// The rest of the fleet needs this also if this caller's context has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellFor)
	defer cancel()
	if used != nil { // before limits follow what the response says is left
		t.settled(used)(s.turn.Settle(ctx, used...))
	}
	for _, l := range c.limits {
		meter.Named(l.Group(), l.Name()).Answered(s.StatusCode, advice.After)
	}
	c.adapt(s.at, s.StatusCode, advice.Advice)
	return t.apply(ctx, s, c, advice)
}

// CloseIdleConnections closes the idle connections of the Base, if it has a method of this name.
// [http.Client.CloseIdleConnections] calls it.
func (t *Transport) CloseIdleConnections() {
	if closer, ok := t.config.Base.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}
