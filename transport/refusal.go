package transport

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/transport/bodies"
	"github.com/fleetpace/fleetpace/transport/headers"
)

// verdict is what a response says about the limits: its header, and its body by the rules of Config.API.
type verdict struct {
	headers.Advice
	window string       // the limit that is used up, by the provider's name; empty: unknown
	stops  bodies.Scope // of a hard stop; empty: there is no stop

	overload overload
	body     bool // of status 200: the header was heard before
}

// overload says whether the provider has too little capacity.
type overload int

const (
	no         overload = iota
	overloaded          // at the moment
	slowDown            // the fleet's rate rises too fast
)

// classify adds what the body of a refusal says to what its header says.
func (t *Transport) classify(response *http.Response, v *verdict) {
	if t.config.API == "" || response.StatusCode < http.StatusBadRequest || v.Cached {
		return
	}
	v.add(bodies.Classify(t.config.API, response.StatusCode, response.Header, peek(response), time.Now()), response.StatusCode)
}

// add adds what a body says.
func (v *verdict) add(r bodies.Refusal, status int) {
	if r.Reason != "" {
		v.Reason = r.Reason
	}
	switch r.Class {
	case bodies.Wait:
		v.Refused, v.window = true, r.Window
		if !v.Named && v.After == 0 && r.After > 0 {
			v.Named, v.After = true, r.After
		}
	case bodies.Alone: // a time that the header names counts for all
		if status != http.StatusRequestTimeout && status != http.StatusConflict && status != http.StatusTooEarly {
			v.overload = overloaded
		}
		if !v.Named {
			v.Refused, v.After = false, 0
		}
	case bodies.Slow: // without a time, the limit backs off
		if v.Refused, v.overload = true, slowDown; status == http.StatusServiceUnavailable {
			v.overload = overloaded
		}
	case bodies.Never:
		v.Refused, v.Final, v.After = false, true, 0
	case bodies.Stop:
		v.Final = true
		if v.Refused = r.Scope != bodies.Key; !v.Refused { // another key may work
			v.After = 0
			return
		}
		v.stops, v.Named, v.After = r.Scope, true, max(v.After, r.After)
	}
}

// peek returns the first bytes of a body. The caller gets all of them, nevertheless.
func peek(response *http.Response) []byte {
	read, err := io.ReadAll(io.LimitReader(response.Body, bodies.MostRead))
	rest := io.Reader(response.Body)
	if err != nil {
		rest = failing{err}
	}
	response.Body = again{io.MultiReader(bytes.NewReader(read), rest), response.Body}
	if !strings.EqualFold(response.Header.Get("Content-Encoding"), "gzip") {
		return read
	}
	z, err := gzip.NewReader(bytes.NewReader(read))
	if err != nil {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(z, bodies.MostRead))
	if err != nil {
		return nil
	}
	return text
}

// again is a body whose beginning was read.
type again struct {
	io.Reader
	io.Closer
}

// failing is a reader that fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// hearFailure pauses the limits for a failure that a body with status 200 reports.
func (t *Transport) hearFailure(ctx context.Context, s sent, c *call, failure []byte) {
	r := bodies.Classify(t.config.API, s.StatusCode, s.Header, failure, time.Now())
	v := verdict{body: true}
	v.add(r, s.StatusCode)
	if r.Class == bodies.None || r.Class == bodies.Never {
		return
	}
	if c.Adapt != nil && !v.Final {
		c.Adapt.ReportN(s.at, c.Costs[c.adaption], true)
	}
	switch {
	case v.Refused:
		t.apply(ctx, s, c, v)
	case t.learner != nil:
		t.learner.hear(ctx, c, nil, v.overload, true)
	}
}

// steer tells the SDK of the caller what to do. A request that cannot succeed is not to be repeated. If the limit is
// paused, the request is to be repeated at once: the retry then waits in the queue.
func (t *Transport) steer(response *http.Response, v verdict, p pause) {
	switch {
	case t.config.API == "" || v.Cached:
	case v.Final:
		response.Header.Set("X-Should-Retry", "false")
	case v.Refused && p.kept && p.asked > 0:
		response.Header.Set("Retry-After-Ms", strconv.Itoa(1))
	}
}
