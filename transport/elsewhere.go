package transport

import (
	"context"
	"net/http"
	"time"

	"github.com/fleetpace/fleetpace/internal/meter"
)

// Elsewhere is the response to a request that another program has sent, which had its turn.
type Elsewhere struct {
	// Response may have any status. One below 400 has the failure that its body reports as its Body. The reason of a
	// pause names the host of its Request.
	Response *http.Response

	// Sent is when the request was sent. A refusal of a request that was sent before the end of a stop or backoff is no
	// reason for another one.
	Sent time.Time

	// LongestStop bounds a hard stop. 0: it lasts until the provider serves calls again.
	LongestStop time.Duration
}

// Hear pauses or stops the limits of a Need as the response says, as after RoundTrip. Config.API must be set, and Retry
// does not count. The header of the response then tells an SDK what to do. If Redis does not answer, the Logger gets a
// line. The error is an ErrInvalid of the Need.
func (t *Transport) Hear(ctx context.Context, need Need, e Elsewhere) error {
	c, err := need.call()
	if err != nil {
		return err
	}
	c.longestStop = e.LongestStop
	s := sent{Response: e.Response, at: e.Sent}
	for _, l := range c.limits {
		t.backoffs.lapse(l, s.at)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellFor)
	defer cancel()
	if s.StatusCode < http.StatusBadRequest {
		t.hearFailure(ctx, s, c, peek(s.Response))
		return nil
	}
	advice := t.read(s.Response)
	for _, l := range c.limits {
		meter.Named(l.Group(), l.Name()).Answered(s.StatusCode, advice.After)
	}
	t.steer(s.Response, advice, t.apply(ctx, s, c, advice))
	return nil
}
