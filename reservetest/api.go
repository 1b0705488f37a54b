package reservetest

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

// API is an API with limits. It judges each request at the moment when it comes. It refuses
// requests that come too early, with 429 and Retry-After; they use no permits. It records all
// requests.
//
// [API.Client] needs no connections. For real connections, which do not work in a bubble, pass the
// API to [net/http/httptest.NewServer]: it is an [http.Handler]. It is safe for concurrent use.
type API struct {
	limits *provider.Provider
	answer http.Handler

	mu       sync.Mutex
	requests []Request
}

// Request is a request that an API received.
type Request struct {
	At      time.Time // when it came
	Method  string
	Path    string // without the query
	Refused bool   // a limit of the API refused it
}

// NewAPI makes an API that enforces all of the limits. Each must be paced, rolling, or a quota of a
// minute, an hour or a day in UTC; other limits end the test. Each request costs one permit of each
// limit. Accepted requests get status 200 and an empty body.
func NewAPI(t testing.TB, limits ...reserve.Limit) *API {
	t.Helper()
	return NewAPIHandler(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), limits...)
}

// NewAPIHandler is [NewAPI] with a handler for the accepted requests. A nil handler ends the test.
func NewAPIHandler(t testing.TB, answer http.Handler, limits ...reserve.Limit) *API {
	t.Helper()
	if answer == nil {
		t.Fatal("reservetest: NewAPIHandler: answer must not be nil")
	}
	var rules []provider.Rule
	for i, l := range limits {
		rule, err := ruleOf(l)
		if err != nil {
			t.Fatalf("reservetest: limits[%d] of an API: %v", i, err)
		}
		rules = append(rules, rule)
	}
	return &API{limits: provider.New(rules...), answer: answer}
}

// ruleOf returns the rule by which a provider enforces a limit.
func ruleOf(l reserve.Limit) (provider.Rule, error) {
	if err := l.Validate(); err != nil {
		return provider.Rule{}, err
	}
	n := l.MaxBurst()
	switch l.Kind() {
	case reserve.KindPaced:
		return provider.TokenBucket(l.Rate(), n), nil
	case reserve.KindRolling:
		window := time.Duration(float64(n) / l.Rate() * float64(time.Second)).Round(time.Microsecond)
		return provider.RollingWindow(n, window), nil
	case reserve.KindQuota:
		begin, end := l.Window(time.Date(2025, 1, 1, 0, 0, 30, 0, time.UTC))
		if window := end.Sub(begin); window <= 24*time.Hour && begin.Equal(begin.Truncate(window)) {
			return provider.FixedWindow(n, window), nil
		}
	}
	return provider.Rule{}, fmt.Errorf("must be paced, rolling, or a quota of a minute, an hour or a day in UTC, got %v", l)
}

// ServeHTTP serves a request. If a limit refuses it, the response is 429; otherwise the handler
// responds.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	own := len(a.requests)
	a.requests = append(a.requests, Request{At: time.Now(), Method: r.Method, Path: r.URL.Path, Refused: true})
	a.mu.Unlock()
	a.limits.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.requests[own].Refused = false
		a.mu.Unlock()
		a.answer.ServeHTTP(w, r)
	})).ServeHTTP(w, r)
}

// Requests returns the requests that the API has received so far, in order.
func (a *API) Requests() []Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests)
}

// Refused returns how many requests the limits of the API have refused so far.
func (a *API) Refused() (n int) {
	for _, r := range a.Requests() {
		if r.Refused {
			n++
		}
	}
	return n
}
