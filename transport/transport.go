package transport

import (
	"fmt"
	"net/http"
	"time"

	"github.com/fleetpace/fleetpace/transport/headers"
)

// Transport is an [http.RoundTripper] that takes a turn before every attempt and
// heeds what the answers say. Make one with New and keep it for as long as its
// client. It is safe for concurrent use if its limiters and its Base are.
type Transport struct {
	config  Config
	learner *learner // nil without Config.Learn
}

// New makes a Transport. The error is an ErrInvalid that names the field.
func New(config Config) (*Transport, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	t := &Transport{config: config.withDefaults()}
	if config.Learn {
		t.learner = newLearner(t.config.Ceiling, t.config.MaxPause, t.config.Logger)
	}
	return t, nil
}

// RoundTrip sends the request when it has its turn, and returns the answer as it
// came: a refusal is no error. Errors of the limiter and of the Base are
// returned as they are, so that errors.Is and the client see what they know, such
// as a deadline.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	turn, err := t.config.Choose(request)
	if err != nil {
		closeBody(request.Body)
		return nil, fmt.Errorf("transport: Config.Choose of %s %s: %w", request.Method, request.URL.Redacted(), err)
	}
	if turn.Limiter == nil {
		return t.config.Base.RoundTrip(request)
	}
	if turn.Cost == 0 {
		turn.Cost = 1
	}
	body := request.Body
	for retries := 0; ; retries++ {
		response, sent, err := t.attempt(request, body, turn)
		if err != nil {
			return nil, err
		}
		advice := headers.Read(response.StatusCode, response.Header, time.Now())
		wait := t.heed(request, response, turn, advice)
		turn.adapt(sent, response.StatusCode, advice)
		if retries >= t.config.Retry.Max || !t.config.Retry.repeats(request, response, advice, wait.asked) {
			return response, nil
		}
		if body, err = bodyAgain(request); err != nil {
			return response, nil //nolint:nilerr // there is an answer; it is only that it can not be improved
		}
		discard(response)
		if err := wait.sleep(request.Context()); err != nil {
			closeBody(body)
			return nil, err
		}
	}
}

// CloseIdleConnections closes those of the Base, if it has any to close.
func (t *Transport) CloseIdleConnections() {
	if closer, ok := t.config.Base.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}
