package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/fleetpace/fleetpace/internal/example"
)

// apiClient calls the paid API. It is safe for concurrent use.
type apiClient struct {
	http   *http.Client
	url    string
	header http.Header
	meter  *example.Meter
}

const (
	callTimeout = 30 * time.Second
	maxAnswer   = 1 << 20 // bytes
)

func newAPIClient(url string, header http.Header, concurrency int) *apiClient {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns = concurrency
	transport.MaxIdleConnsPerHost = concurrency // with the default of 2, most calls would open a connection
	return &apiClient{
		http: &http.Client{
			Transport: transport,
			Timeout:   callTimeout,
			// A redirect would be a second call without a turn.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		url:    url,
		header: header,
		meter:  &example.Meter{},
	}
}

func (c *apiClient) close() { c.http.CloseIdleConnections() }

// statusError is a response that is not a success.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string {
	s := fmt.Sprintf("%d %s", e.code, http.StatusText(e.code))
	if e.text != "" {
		s += ": " + e.text
	}
	return s
}

// aboutCaller reports whether the API refuses us, or has moved, whatever the record.
func (e *statusError) aboutCaller() bool {
	switch e.code {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden:
		return true
	}
	return e.code/100 == 3
}

// call makes one attempt. The error tells backoff what to do: it retries network errors and 5xx, a
// 429 says when to retry, and everything else is permanent.
//
// The idempotency key is the record's ID, in every attempt of every run. So we do not pay again for
// a response that was lost, or that was on its way when this process was killed.
func (c *apiClient) call(ctx context.Context, r example.Record) (json.RawMessage, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(r.Body))
	if err != nil {
		return nil, backoff.Permanent(err)
	}
	// If a kept connection breaks, the transport sends a request with an idempotency key again by
	// itself, without a turn. Without GetBody it cannot.
	req.GetBody = nil
	for name, values := range c.header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	// Escaped, because a header cannot hold every ID.
	req.Header.Set("Idempotency-Key", url.PathEscape(r.ID))

	sent := c.meter.Sent()
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() // errors of a body that is only read do not matter
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		failure := &statusError{code: resp.StatusCode, text: excerpt(body)}
		if to := resp.Header.Get("Location"); to != "" {
			failure.text = "to " + to
		}
		switch {
		case resp.StatusCode == http.StatusTooManyRequests:
			c.meter.Refused(sent)
			if after, ok := retryAfter(resp.Header.Get("Retry-After"), time.Now()); ok {
				return nil, fmt.Errorf("%w: %w", failure, &backoff.RetryAfterError{Duration: after})
			}
			return nil, failure
		case resp.StatusCode >= 500, resp.StatusCode == http.StatusRequestTimeout:
			return nil, failure
		}
		return nil, backoff.Permanent(failure)
	}
	if len(body) > maxAnswer {
		return nil, backoff.Permanent(fmt.Errorf("the answer is longer than %d bytes", maxAnswer))
	}
	if !json.Valid(body) {
		return nil, backoff.Permanent(fmt.Errorf("the answer is not JSON: %s", excerpt(body)))
	}
	return body, nil
}

// excerpt returns the beginning of a response, on one line.
func excerpt(body []byte) string {
	const most = 200
	text := strings.Join(strings.Fields(string(body[:min(len(body), most)])), " ")
	return strings.ToValidUTF8(text, "")
}

// retryAfter reads both forms of the header: seconds and a date.
func retryAfter(value string, now time.Time) (time.Duration, bool) {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(0, date.Sub(now)), true
	}
	return 0, false
}
