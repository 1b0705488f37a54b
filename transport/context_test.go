package transport_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport"
)

// Code that calls an SDK says with the context whose request it is, what it costs, and that somebody waits for
// it: an urgent request goes ahead, each flow has its share, and a request takes its cost.
func TestContextsSayWhatARequestNeeds(t *testing.T) {
	for name, choose := range map[string]bool{"Limiter": false, "Choose": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, reserve.PerSecond(10).Burst(5))
				config := transport.Config{Limiter: l.Limiter, Base: &script{answers: []reply{{200, ""}}}}
				if choose {
					config.Limiter, config.Choose = nil, func(*http.Request) (transport.Need, error) { return transport.Need{Limiter: l.Limiter}, nil }
				}
				paced := newTransport(t, config)
				var mu sync.Mutex
				var order []string
				var busy sync.WaitGroup
				send := func(who string, r *http.Request) {
					busy.Go(func() {
						do(t, paced, r)
						mu.Lock()
						defer mu.Unlock()
						order = append(order, who)
					})
					time.Sleep(time.Millisecond)
				}
				plain := func() *http.Request { return newRequest(t, "GET", "http://api.test/", nil) }
				ctx := transport.WithCost(t.Context(), 5)
				send("all", plain().WithContext(ctx))
				for range 6 {
					send("a", plain().WithContext(transport.WithFlow(t.Context(), "a")))
				}
				send("b", plain().WithContext(transport.WithFlow(t.Context(), "b")))
				send("urgent", plain().WithContext(transport.WithUrgent(transport.WithFlow(t.Context(), "b"))))
				busy.Wait()
				require.Len(t, order, 9)
				at := strings.Index(strings.Join(order, " ")+" ", "urgent ")
				assert.Equal(t, "all", order[0])
				assert.LessOrEqual(t, at, len("all a a a a a "), "%v", order)
				assert.NotEqual(t, "b", order[8], "%v", order)
			})
		})
	}
}

func TestContextsThatAreWrong(t *testing.T) {
	l := newLimiter(t, reserve.PerSecond(10).Burst(5))
	paced := newTransport(t, transport.Config{Limiter: l.Limiter, Base: &script{answers: []reply{{200, ""}}}})
	for want, r := range map[string]*http.Request{
		"WithCost: must be at least 1, got 0":      newRequest(t, "GET", "http://api.test/", nil).WithContext(transport.WithCost(t.Context(), 0)),
		"WithCost: must be at least 1, got -5":     newRequest(t, "GET", "http://api.test/", nil).WithContext(transport.WithCost(t.Context(), -5)),
		"n: must be at most the burst of":          newRequest(t, "GET", "http://api.test/", nil).WithContext(transport.WithCost(t.Context(), 6)),
		"flow: must have 1 to 256 bytes, got 0":    newRequest(t, "GET", "http://api.test/", nil).WithContext(transport.WithFlow(t.Context(), "")),
		"flow: must have 1 to 256 bytes, got 1000": newRequest(t, "GET", "http://api.test/", nil).WithContext(transport.WithFlow(t.Context(), strings.Repeat("x", 1000))),
	} {
		_, err := paced.RoundTrip(r)
		require.ErrorIs(t, err, reserve.ErrInvalid)
		require.ErrorContains(t, err, want)
	}
}

// A refusal inside a response with status 200 pauses the limit, as long as it says, and is retried.
func TestRefusedInABody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, reserve.PerSecond(10))
		base := &script{answers: []reply{{200, "Throttled: 3"}, {200, ""}}}
		paced := newTransport(t, transport.Config{
			Limiter: l.Limiter, Base: base, Retry: transport.Retry{Max: 1},
			Refused: func(r *http.Response) (bool, time.Duration) {
				body, err := io.ReadAll(r.Body)
				assert.NoError(t, err)
				r.Body = io.NopCloser(strings.NewReader(string(body)))
				return r.Header.Get("Throttled") != "", 3 * time.Second
			},
		})
		begun := time.Now()
		assert.Equal(t, 200, do(t, paced, newRequest(t, "GET", "http://api.test/", nil)))
		assert.Equal(t, 2, base.times())
		assert.InDelta(t, 3*time.Second, time.Since(begun), float64(200*time.Millisecond))
		require.Len(t, l.pauses(), 1)
		assert.Contains(t, l.pauses()[0].Reason, "api.test answered 200: refused in its body")
	})
}

// Another program uses the same account: the fleet continues with what responses say is left, less what is
// under way.
func TestLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, reserve.PerHour(60).Burst(50))
		base := &script{answers: []reply{{200, "X-RateLimit-Limit: 60\nX-RateLimit-Remaining: 20"}, {200, "X-RateLimit-Limit: 60\nX-RateLimit-Remaining: -1"}, {200, ""}}}
		paced := newTransport(t, transport.Config{Limiter: l.Limiter, Base: base, Levels: true})
		do(t, paced, newRequest(t, "GET", "http://api.test/", nil))
		assert.InDelta(t, 20, l.inForce(t).Stored, 0.5)
		do(t, paced, newRequest(t, "GET", "http://api.test/", nil))
		do(t, paced, newRequest(t, "GET", "http://api.test/", nil))
		assert.InDelta(t, 18, l.inForce(t).Stored, 0.5)
	})
}

// A tenth of a bucket is left to others. The rest of a window lasts until its end. Output tokens are no level, since
// open calls will produce more.
func TestLevelsByKind(t *testing.T) {
	for name, c := range map[string]struct {
		header, window string
		stored         float64
		paused         time.Duration
	}{
		"bucket":        {"Anthropic-Ratelimit-Requests-Limit: 600\nAnthropic-Ratelimit-Requests-Remaining: 160", "requests", 100, 0},
		"bucket, lower": {"Anthropic-Ratelimit-Requests-Limit: 600\nAnthropic-Ratelimit-Requests-Remaining: 20", "requests", 0, 4 * time.Second},
		"output":        {"Anthropic-Ratelimit-Output-Tokens-Limit: 600\nAnthropic-Ratelimit-Output-Tokens-Remaining: 20", "output-tokens", 299, 0},
		"window":        {"X-Ratelimit-Limit-Tokens: 600\nX-Ratelimit-Remaining-Tokens: 400\nX-Rate-Limit-Reset-Tokens: 31", "tokens", 100, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, reserve.PerSecond(10).Burst(300))
				base := &script{answers: []reply{{200, c.header}}}
				paced := newTransport(t, transport.Config{Levels: true, Base: base, Choose: func(*http.Request) (transport.Need, error) {
					return transport.Need{Limiter: l.Limiter, Window: c.window}, nil
				}})
				do(t, paced, newRequest(t, "GET", "http://api.test/", nil))
				state := l.inForce(t)
				assert.Equal(t, c.paused, state.Paused.Round(time.Second))
				if c.paused == 0 {
					assert.InDelta(t, c.stored, state.Stored, 2)
				}
			})
		})
	}
}

// slowly is a Base that answers each request after as many seconds as its host says.
type slowly struct{ script }

func (s *slowly) RoundTrip(r *http.Request) (*http.Response, error) {
	after, err := time.ParseDuration(r.URL.Host)
	time.Sleep(after)
	if err != nil {
		return nil, err
	}
	return s.script.RoundTrip(r)
}

// A response says what was left when the provider admitted its request. Of the requests under way, those that were sent
// later are not counted yet, and those before are.
func TestLevelsOfRequestsUnderWay(t *testing.T) {
	for name, c := range map[string]struct {
		sent   [2]time.Duration // the request that is answered first, and the other one
		stored float64
	}{
		"sent later":      {[2]time.Duration{0, 2 * time.Second}, 13},
		"sent before":     {[2]time.Duration{2 * time.Second, 0}, 20},
		"sent at once":    {[2]time.Duration{0, 0}, 20},
		"sent soon after": {[2]time.Duration{0, 200 * time.Millisecond}, 13},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, reserve.PerHour(60).Burst(50))
				base := &slowly{script{answers: []reply{{200, "X-RateLimit-Limit: 60\nX-RateLimit-Remaining: 20"}, {200, ""}}}}
				paced := newTransport(t, transport.Config{Limiter: l.Limiter, Base: base, Levels: true})
				var busy sync.WaitGroup
				busy.Go(func() {
					time.Sleep(c.sent[0])
					do(t, paced, newRequest(t, "GET", "http://4s/", nil))
					time.Sleep(time.Second) // Stored is rounded down
					assert.InDelta(t, c.stored, l.inForce(t).Stored, 0.5)
				})
				busy.Go(func() {
					time.Sleep(c.sent[1])
					do(t, paced, newRequest(t, "GET", "http://1m/", nil).WithContext(transport.WithCost(t.Context(), 7)))
				})
				busy.Wait()
			})
		})
	}
}
