package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// sent is an attempt that got a response.
type sent struct {
	*http.Response
	at time.Time
	// turn is nil if the call has no slots to release and no cost to settle.
	turn *reserve.Reservation
}

// release frees the slots of the attempt, if it holds any.
func (s sent) release() {
	if s.turn != nil {
		s.turn.Release()
	}
}

// attempt waits for a turn and sends the request with this body, which it closes.
//
// net/http repeats some requests by itself: it wrote something to a kept connection, and then the
// connection turned out to be closed. The provider may have counted the first attempt, so the
// second one needs a turn, too. It waits for that turn when net/http asks for another connection,
// before it holds one.
func (t *Transport) attempt(request *http.Request, body io.ReadCloser, c *call) (s sent, err error) {
	if s.turn, err = t.take(request.Context(), c); err != nil {
		closeBody(body)
		return s, err
	}
	s.at = time.Now()
	t.estimate(request, s)
	defer t.levels.sends(c)()
	ctx, cancel := context.WithCancelCause(request.Context())
	var asked, connected, written atomic.Bool
	var failed atomic.Pointer[error]
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { written.Store(true) },
		GotConn:      func(httptrace.GotConnInfo) { connected.Store(true) },
		GetConn: func(string) {
			asked.Store(true)
			if !written.Swap(false) {
				return
			}
			if err := c.wait(ctx); err != nil {
				failed.Store(&err)
				cancel(err) // the only way to tell net/http
			}
		},
	})
	again := request.WithContext(traced) // a copy: the caller's request stays as it is
	again.Body = body
	s.Response, err = t.config.Base.RoundTrip(again)
	if err != nil {
		cancel(nil)
		s.release()
		// Without a connection, such as after a failed dial, nothing was sent.
		if unsent := asked.Load() && !connected.Load() || errors.As(err, new(interface{ Unsent() })); unsent && s.turn != nil && c.settles {
			t.settle(s, make([]int, len(c.limits)))
		}
		if cause := failed.Load(); cause != nil {
			return s, *cause
		}
		return s, err
	}
	s.Response.Request = request
	// Only net/http's own transports are sure to set a Body.
	if s.Body == nil {
		s.Body = http.NoBody
	}
	scan, zipped := t.scanner(s.Response, c)
	s.Body = hold(s.Body, scan, zipped, t.early(s, scan), func() {
		cancel(nil)
		t.bodyOver(s, c, scan)
	})
	return s, nil
}

func closeBody(body io.Closer) {
	if body != nil {
		_ = body.Close()
	}
}
