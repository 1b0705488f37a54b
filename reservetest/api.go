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

// API is an API with limits, which judges each request at the moment when it comes. What comes
// too early is refused with 429 and Retry-After, and uses nothing. It records all requests.
//
// [API.Client] needs no connections. For real ones, which a bubble cannot wait for, give the API
// to [net/http/httptest.NewServer]: it is an [http.Handler]. It is safe for concurrent use.
type API struct {
	limits *provider.Provider
	answer http.Handler

	mu       sync.Mutex
	requests []Request
}

// Request is a request that an API had.
type Request struct {
	At      time.Time // when it came
	Method  string
	Path    string // without the query
	Refused bool   // by the limits of the API
}

// NewAPI makes an API that enforces all of the limits. They are paced or rolling, or quotas of a
// minute, an hour or a day in UTC. Others end the test. Each request costs one permit of each. A
// request that is accepted is answered with 200 and an empty body.
func NewAPI(t testing.TB, limits ...reserve.Limit) *API {
	t.Helper()
	return NewAPIHandler(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), limits...)
}

// NewAPIHandler is [NewAPI] with a handler that answers the requests that are accepted. A nil
// handler ends the test.
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

// ruleOf is how a provider keeps to a limit, if it can.
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

// ServeHTTP answers a request: with 429 if a limit refuses it, and else as the handler does.
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

// Requests are those that the API had until now, in the order in which they came.
func (a *API) Requests() []Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests)
}

// Refused is how many requests the limits of the API have refused until now.
func (a *API) Refused() (n int) {
	for _, r := range a.Requests() {
		if r.Refused {
			n++
		}
	}
	return n
}
