// Package web is what a polite crawler needs besides its limits: one form of each URL, the links of a
// page, single requests, and the rules of robots.txt.
package web

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
	// AgentName is the name of this crawler in robots.txt files.
	AgentName = "fleetpace-crawler"
	userAgent = AgentName + "/1.0 (+https://github.com/fleetpace/fleetpace)"

	fetchTimeout = 15 * time.Second // from connecting to the end of the body
	MaxBody      = 5 << 20          // bytes; the rest of a longer page is not read
	MaxHops      = 5                // redirects in a row that are followed
)

// Answer is a server's response to one request.
type Answer struct {
	Status      int
	ContentType string
	IsHTML      bool
	Body        []byte        // only for HTML
	Location    *url.URL      // the target of a redirect, normalised; nil: no redirect
	RetryAfter  time.Duration // how long a 429 or 503 asks to wait; 0: it does not say
}

// AsksForPause reports whether the server is busy and says for how long.
func (a Answer) AsksForPause() bool {
	return a.RetryAfter > 0 && (a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable)
}

func (a Answer) IsRedirect() bool { return a.Status >= 300 && a.Status < 400 && a.Location != nil }

// Fetcher sends single requests. It never follows a redirect and never retries, because each
// request needs its own turn. It is safe for concurrent use.
type Fetcher struct {
	client *http.Client
}

func NewFetcher() *Fetcher {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 8
	return &Fetcher{client: &http.Client{
		Transport:     transport,
		Timeout:       fetchTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Get fetches u. It reads only HTML bodies, unless anyType is set. Any status is a response; an
// error means that there was no response.
func (f *Fetcher) Get(ctx context.Context, u *url.URL, anyType bool) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return Answer{}, err
	}
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.1")
	resp, err := f.client.Do(req)
	if err != nil {
		var withURL *url.Error
		if errors.As(err, &withURL) {
			err = withURL.Err // messages already name the URL
		}
		return Answer{}, err
	}
	defer resp.Body.Close()

	a := Answer{
		Status:      resp.StatusCode,
		ContentType: resp.Header.Get("Content-Type"),
		RetryAfter:  parseRetryAfter(resp.Header.Get("Retry-After"), time.Now()),
	}
	if to := resp.Header.Get("Location"); to != "" && a.Status >= 300 && a.Status < 400 {
		if a.Location, err = Normalise(u, to); err != nil {
			a.Location = nil
		}
	}
	body := bufio.NewReader(resp.Body)
	if a.ContentType == "" {
		start, _ := body.Peek(512)
		a.ContentType = http.DetectContentType(start)
	}
	media, _, _ := mime.ParseMediaType(a.ContentType)
	a.IsHTML = media == "text/html" || media == "application/xhtml+xml"
	if !a.IsHTML && !anyType {
		// If the rest is short, the connection can be used again after it is read.
		_, _ = io.CopyN(io.Discard, body, 4<<10)
		return a, nil
	}
	if a.Body, err = io.ReadAll(io.LimitReader(body, MaxBody)); err != nil {
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
