package transport

import (
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/transport/headers"
)

// repeats reports whether to retry a request that got this response. The response asks for this
// wait before.
func (r Retry) repeats(request *http.Request, response *http.Response, advice headers.Advice, wait time.Duration) bool {
	if !advice.Refused && !slices.Contains(r.Statuses, response.StatusCode) {
		return false
	}
	if advice.Final || !idempotent(request) || !replayable(request) {
		return false
	}
	if r.MaxWait > 0 && wait > r.MaxWait {
		return false
	}
	// A wait beyond the deadline would only keep the response from the caller.
	deadline, ok := request.Context().Deadline()
	return !ok || wait < time.Until(deadline)
}

// idempotent follows the rules of net/http: the methods of RFC 9110, and the header by which a
// client says that the server recognizes repeated calls.
func idempotent(request *http.Request) bool {
	switch request.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	_, key := request.Header["Idempotency-Key"]
	_, xKey := request.Header["X-Idempotency-Key"]
	return key || xKey
}

func replayable(request *http.Request) bool {
	return request.Body == nil || request.Body == http.NoBody || request.GetBody != nil
}

// bodyAgain returns the body of a replayable request once more. The caller closes it.
func bodyAgain(request *http.Request) (io.ReadCloser, error) {
	if request.Body == nil || request.Body == http.NoBody {
		return request.Body, nil
	}
	return request.GetBody()
}

const (
	mostDrained = 64 << 10 // bytes: reading more costs more than a new connection
	drainFor    = time.Second
)

// discard reads the rest of a response, so that its connection can be used again, and closes it.
func discard(response *http.Response) {
	// A provider that sends its refusal slowly must not delay the retry.
	stop := time.AfterFunc(drainFor, func() { _ = response.Body.Close() })
	defer stop.Stop()
	_, _ = io.CopyN(io.Discard, response.Body, mostDrained)
	_ = response.Body.Close()
}
