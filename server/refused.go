package server

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport"
	"github.com/fleetpace/fleetpace/transport/bodies"
)

// longestAgo bounds how long ago a caller says that it has sent its request.
const longestAgo = time.Hour

// newHears makes what knows the rules of each provider, and how long its refusals have paused a limit.
func newHears(logger *slog.Logger) (map[bodies.API]*transport.Transport, error) {
	hears := map[bodies.API]*transport.Transport{}
	for _, api := range []bodies.API{bodies.Anthropic, bodies.OpenAI, bodies.Azure, bodies.Gemini, bodies.Bedrock, bodies.Shopify, bodies.GitHub} {
		t, err := transport.New(transport.Config{Choose: noNeed, API: api, MaxPause: longestOfTurns, Logger: logger})
		if err != nil {
			return nil, err
		}
		hears[api] = t
	}
	return hears, nil
}

func noNeed(*http.Request) (transport.Need, error) { return transport.Need{}, nil }

// refusedAnswer tells the caller what to tell its SDK.
type refusedAnswer struct {
	Retry *bool    `json:"retry,omitempty"`
	After *float64 `json:"retry_after_ms,omitempty"`
}

func (s *Server) refused(w http.ResponseWriter, r *http.Request) {
	var q struct {
		call
		API     bodies.API        `json:"api"`
		Status  int               `json:"status"`
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
		Host    string            `json:"host"`
		Ago     string            `json:"ago"`
	}
	if !read(w, r, &q) {
		return
	}
	n, err := s.resolve(&q.call, false)
	var ago time.Duration
	if err == nil {
		ago, err = durationOf("ago", q.Ago)
	}
	hears := s.hears[q.API]
	switch {
	case err != nil:
	case hears == nil:
		err = wrong("api", string(q.API), "must be anthropic, openai, azure, gemini, bedrock, shopify or github")
	case len(q.Host) > longestID:
		err = wrong("host", nil, fmt.Sprintf("must have at most %d bytes, got %d", longestID, len(q.Host)))
	case q.Status < 200 || q.Status > 599:
		err = wrong("status", q.Status, "must be from 200 to 599")
	}
	response := &http.Response{
		StatusCode: q.Status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(q.Body)),
		Request: &http.Request{URL: &url.URL{Host: q.Host}},
	}
	for name, value := range q.Headers {
		response.Header.Set(name, value)
	}
	e := transport.Elsewhere{Response: response, Sent: time.Now().Add(-min(ago, longestAgo))}
	if s.tokens.may(r)&operates == 0 {
		e.LongestStop = longestOfTurns
	}
	if err == nil {
		var of transport.Need
		if of, err = needOf(n); err == nil {
			err = hears.Hear(r.Context(), of, e)
		}
	}
	if err != nil {
		answer(w, problemOf(err, "limits"))
		return
	}
	var body refusedAnswer
	if response.Header.Get("X-Should-Retry") == "false" {
		body.Retry = new(bool)
	}
	if after, err := strconv.ParseFloat(response.Header.Get("Retry-After-Ms"), 64); err == nil && after >= 0 && after <= math.MaxInt32 {
		body.After = &after
	}
	answer(w, body)
}

// needOf returns what a call needs, for its refusal. Slots beside other limits are those of the account: a refusal for a
// model leaves them to its other models.
func needOf(n need) (of transport.Need, err error) {
	of.Limiter = n.turns
	var account, others []*reserve.Limiter
	for _, l := range n.turns.Limits() {
		if l.Limit().Kind() == reserve.KindSlots {
			account = append(account, l)
		} else {
			others = append(others, l)
		}
		of.Windows = append(of.Windows, "-") // the file does not tell the provider's names
	}
	if len(account) > 0 && len(others) > 0 {
		if of.Account, err = reserve.All(account...); err == nil {
			of.Pauses, err = reserve.All(others...)
		}
	}
	return of, err
}
