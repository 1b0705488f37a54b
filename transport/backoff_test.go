package transport_test

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport"
)

// TestRetryAfterOfEveryStatus: what an answer asks for counts at each status after which a request
// is sent again. Where it is no refusal, it is about that request alone.
func TestRetryAfterOfEveryStatus(t *testing.T) {
	for i, status := range []int{500, 408, 409, 425, 429, 502, 503, 504, 529} {
		for j, c := range []struct {
			after string
			want  time.Duration // between two attempts, of which the rate alone has 100 ms
		}{
			{"Retry-After: 5", 5 * time.Second},
			{"Retry-After: 0", 100 * time.Millisecond},
			{"Retry-After-Ms: 1500", 1500 * time.Millisecond},
			{"Date: Thu, 21 Aug 2025 12:41:00 GMT\nRetry-After: Thu, 21 Aug 2025 12:41:09 GMT", 9 * time.Second},
			{"Date: Thu, 21 Aug 2025 12:41:00 GMT\nRetry-After: 2025-08-21T12:41:09Z", 9 * time.Second},
			{"Date: Thu, 21 Aug 2025 12:41:00 GMT\nRetry-After: 1755780069", 9 * time.Second},
			{"Retry-After: 1m30s", 90 * time.Second},
		} {
			if i > 0 && j > 1 {
				continue // all forms are read alike
			}
			synctest.Test(t, func(t *testing.T) {
				limiter := newLimiter(t, reserve.PerSecond(10))
				base := &timed{script: script{answers: []reply{{status, c.after}}}}
				retry := transport.Retry{Max: 2, Statuses: []int{408, 409, 425, 500, 502, 503, 504, 529}}
				paced := newTransport(t, transport.Config{Limiter: limiter, Base: base, Retry: retry})
				assert.Equal(t, status, do(t, paced, newRequest(t, "GET", "http://api.test", nil)))
				require.Len(t, base.at, 3)
				for i := range 2 {
					assert.InDelta(t, c.want, base.at[i+1].Sub(base.at[i]), float64(10*time.Millisecond), "%d, %s", status, c.after)
				}
				if status != 429 && status != 503 && status != 529 {
					assert.Empty(t, limiter.pauses(), "%d, %s: others go on", status, c.after)
				}
			})
		}
	}
}

// timed is a script that keeps when it was asked.
type timed struct {
	script
	at []time.Time
}

func (b *timed) RoundTrip(r *http.Request) (*http.Response, error) {
	b.at = append(b.at, time.Now())
	return b.script.RoundTrip(r)
}

// outage is a provider that refuses every call for a time, and names no moment.
type outage struct {
	over time.Time
	how  reply

	mu      sync.Mutex
	refused int
	first   time.Time // success after it
	after   int       // successes within ten seconds of that
}

func (o *outage) RoundTrip(r *http.Request) (*http.Response, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Now().Before(o.over) {
		o.refused++
		return (&script{answers: []reply{o.how}}).RoundTrip(r)
	}
	if o.first.IsZero() {
		o.first = time.Now()
	}
	if time.Since(o.first) < 10*time.Second {
		o.after++
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// done reports whether calls have succeeded for twelve seconds.
func (o *outage) done() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.first.IsZero() && time.Since(o.first) > 12*time.Second
}

// TestBackoff: a fleet whose provider refuses its calls and names no moment asks ever more rarely,
// and goes on at its rate once a call succeeds. Without that it makes all calls of the rate in vain.
func TestBackoff(t *testing.T) {
	const perSecond, processes, callers = 20, 3, 5
	for name, c := range map[string]struct {
		lasts    time.Duration
		most     time.Duration // MaxPause
		how      reply
		refused  int           // calls at the most
		recovery time.Duration // at the most: the last pause, which is as long as the outage at the most
	}{
		"a second":                     {500 * time.Millisecond, 0, reply{429, ""}, 15, 2 * time.Second},
		"a minute":                     {time.Minute, 0, reply{429, ""}, 40, 64 * time.Second},
		"eight minutes":                {8 * time.Minute, 0, reply{429, ""}, 50, 9 * time.Minute},
		"three minutes, MaxPause 10 s": {3 * time.Minute, 10 * time.Second, reply{429, ""}, 18 * (1 + processes), 11 * time.Second},
		"garbage":                      {time.Minute, 0, reply{429, "Retry-After: soon"}, 40, 64 * time.Second},
		"no credit":                    {time.Minute, 0, reply{429, "X-Should-Retry: false"}, 40, 64 * time.Second},
		"used up, without a reset":     {time.Minute, 0, reply{403, "X-RateLimit-Limit: 60\nX-RateLimit-Remaining: 0"}, 40, 64 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			if c.lasts > 3*time.Minute {
				redistest.GateOnly(t)
			}
			synctest.Test(t, func(t *testing.T) {
				b := bubble.New(t)
				api := &outage{over: time.Now().Add(c.lasts), how: c.how}

				var calls sync.WaitGroup
				for range processes {
					limiter := b.Limiter(b.Client(), reserve.Config{Limit: reserve.PerSecond(perSecond)})
					paced := newTransport(t, transport.Config{Limiter: limiter, Base: api, MaxPause: c.most})
					for range callers {
						calls.Go(func() {
							for !api.done() {
								response, err := paced.RoundTrip(newRequest(t, "GET", "http://api.test", nil))
								if !assert.NoError(t, err) {
									return
								}
								_, _ = io.Copy(io.Discard, response.Body)
								_ = response.Body.Close()
							}
						})
					}
				}
				calls.Wait()
				back := api.first.Sub(api.over)
				t.Logf("MEASURE %s: %d refused, of %.0f at the full rate; the first call succeeds %v after the end, %d in the next 10 s",
					name, api.refused, c.lasts.Seconds()*perSecond, back, api.after)
				assert.LessOrEqual(t, api.refused, c.refused)
				assert.LessOrEqual(t, back, c.recovery)
				assert.GreaterOrEqual(t, api.after, 10*perSecond*95/100, "then at the full rate")
			})
		})
	}
}

// TestBackoffOfOneLimit: of several limits those rest that Need.Pauses names, others go on; calls
// that were under way together are one refusal; an Adapter answers by itself.
func TestBackoffOfOneLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := llm(t)
		turn := transport.Need{Limiter: both, Costs: []int{1, 1}, Pauses: both.Limits()[1]}
		paused := func() [2]time.Duration {
			states, err := both.States(t.Context())
			require.NoError(t, err)
			return [2]time.Duration{states[0].Paused.Round(10 * time.Millisecond), states[1].Paused.Round(10 * time.Millisecond)}
		}
		base := slow{&script{answers: []reply{{429, ""}}}}
		paced := newTransport(t, transport.Config{Base: base, Choose: func(*http.Request) (transport.Need, error) { return turn, nil }})
		for _, want := range []time.Duration{1, 2, 4} {
			var calls sync.WaitGroup
			for range 4 {
				calls.Go(func() { do(t, paced, newRequest(t, "GET", "http://api.test", nil)) })
			}
			calls.Wait()
			assert.Equal(t, [2]time.Duration{0, want * time.Second}, paused())
			time.Sleep(want*time.Second + 5*time.Second)
		}
		turn.Adapt = &hears{}
		do(t, paced, newRequest(t, "GET", "http://api.test", nil))
		assert.Equal(t, [2]time.Duration{}, paused())
	})
}
