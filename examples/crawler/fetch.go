package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// agentName is the name of this crawler in robots.txt files.
	agentName = "fleetpace-crawler"
	userAgent = agentName + "/1.0 (+https://github.com/fleetpace/fleetpace)"

	fetchTimeout = 15 * time.Second // from connecting to the end of the body
	maxBody      = 5 << 20          // bytes; the rest of a longer page is not read
	maxHops      = 5                // redirects in a row that are followed
)

// answer is a server's response to one request.
type answer struct {
	status      int
	contentType string
	isHTML      bool
	body        []byte        // only for HTML
	location    *url.URL      // the target of a redirect, normalised; nil: no redirect
	retryAfter  time.Duration // how long a 429 or 503 asks to wait; 0: it does not say
}

// asksForPause reports whether the server is busy and says for how long.
func (a answer) asksForPause() bool {
	return a.retryAfter > 0 && (a.status == http.StatusTooManyRequests || a.status == http.StatusServiceUnavailable)
}

func (a answer) isRedirect() bool { return a.status >= 300 && a.status < 400 && a.location != nil }

// fetcher sends single requests. It never follows a redirect and never retries, because each
// request needs its own turn. It is safe for concurrent use.
type fetcher struct {
	client *http.Client
}

func newFetcher() *fetcher {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 8
	return &fetcher{client: &http.Client{
		Transport:     transport,
		Timeout:       fetchTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// get fetches u. It reads only HTML bodies, unless anyType is set. Any status is a response; an
// error means that there was no response.
func (f *fetcher) get(ctx context.Context, u *url.URL, anyType bool) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.1")
	resp, err := f.client.Do(req)
	if err != nil {
		var withURL *url.Error
		if errors.As(err, &withURL) {
			err = withURL.Err // messages already name the URL
		}
		return answer{}, err
	}
	defer resp.Body.Close()

	a := answer{
		status:      resp.StatusCode,
		contentType: resp.Header.Get("Content-Type"),
		retryAfter:  parseRetryAfter(resp.Header.Get("Retry-After"), time.Now()),
	}
	if to := resp.Header.Get("Location"); to != "" && a.status >= 300 && a.status < 400 {
		if a.location, err = normalise(u, to); err != nil {
			a.location = nil
		}
	}
	body := bufio.NewReader(resp.Body)
	if a.contentType == "" {
		start, _ := body.Peek(512)
		a.contentType = http.DetectContentType(start)
	}
	media, _, _ := mime.ParseMediaType(a.contentType)
	a.isHTML = media == "text/html" || media == "application/xhtml+xml"
	if !a.isHTML && !anyType {
		// If the rest is short, the connection can be used again after it is read.
		_, _ = io.CopyN(io.Discard, body, 4<<10)
		return a, nil
	}
	if a.body, err = io.ReadAll(io.LimitReader(body, maxBody)); err != nil {
		return a, fmt.Errorf("read body: %w", err)
	}
	return a, nil
}

// parseRetryAfter reads both forms of the header. It returns 0 for anything else.
func parseRetryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(value); err == nil && seconds > 0 {
		return time.Duration(min(seconds, 3600)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil && at.After(now) {
		return min(at.Sub(now), time.Hour)
	}
	return 0
}
