package transport_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/adaptive"
	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport"
)

// model is a Base that stands for a language model: it refuses what its buckets of requests
// and of tokens do not hold, and says what a call has used.
type model struct {
	requests, tokens *provider.Provider
	uses             int // tokens of each call
}

func (m *model) RoundTrip(r *http.Request) (*http.Response, error) {
	status := 200
	for _, judge := range []struct {
		*provider.Provider
		cost int
	}{{m.requests, 1}, {m.tokens, m.uses}} {
		if ok, _ := judge.Judge(judge.cost); !ok {
			status = 429
		}
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Request: r}, nil
}

// llm is the limits of a model: requests and tokens.
func llm(t testing.TB) *reserve.Joint {
	b := bubble.New(t)
	return b.Joint(b.Client(),
		reserve.Config{Name: "requests", Limit: reserve.PerMinute(57).Burst(10)},
		reserve.Config{Name: "tokens", Limit: reserve.PerMinute(7500).Burst(2500), Settles: true})
}

// TestSettles: 20 calls whose tokens are estimated at 600, and were 200, are made as fast as
// what they use allows. The last one has its turn when 600 of 7,500/min are there after 19
// times 200 of 2,500 in stock: after 15.2 s. What comes back of the first ones may be lost, as
// the bucket was full then.
func TestSettles(t *testing.T) {
	t.Parallel()
	const lost = 2 * 400 * time.Minute / 7500
	for name, c := range map[string]struct {
		used []int
		from time.Duration
		to   time.Duration
	}{
		"settled":           {[]int{1, 200}, 15200 * time.Millisecond, 15300*time.Millisecond + lost},
		"tokens alone":      {[]int{-1, 200}, 15200 * time.Millisecond, 15300*time.Millisecond + lost},
		"right as they are": {nil, 76 * time.Second, 76100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			for range redistest.Budget(10, 2) { // the order of goroutines is not always the same
				synctest.Test(t, func(t *testing.T) {
					took := twenty(t, c.used)
					t.Logf("MEASURE 20 calls, %s: %v", name, took)
					assert.GreaterOrEqual(t, took, c.from)
					assert.LessOrEqual(t, took, c.to)
				})
			}
		})
	}
}

// twenty is how long 20 calls take that are made at once, if it is said that they used so much.
func twenty(t *testing.T, used []int) time.Duration {
	api := &model{provider.New(provider.TokenBucket(57.0/60, 10)), provider.New(provider.TokenBucket(7500.0/60, 2500)), 200}
	if used == nil {
		api.uses = 600
	}
	both := llm(t)
	paced := newTransport(t, transport.Config{
		Base: api,
		Choose: func(*http.Request) (transport.Need, error) {
			return transport.Need{Limiter: both, Costs: []int{1, 600}}, nil
		},
		Used: func(*http.Response) []int { return used },
	})
	began := time.Now()
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			assert.Equal(t, 200, do(t, paced, newRequest(t, "POST", "http://api.test", nil)))
		})
	}
	calls.Wait()
	return time.Since(began)
}

// TestSettlesEachAttempt: a refusal has used nothing, and the attempt after it what it says. A
// request without time waits for no turn, and takes none.
func TestSettlesEachAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := llm(t)
		paced := newTransport(t, transport.Config{
			Base:  &script{answers: []reply{{429, "Retry-After: 0"}, {200, ""}}},
			Retry: transport.Retry{Max: 1},
			Choose: func(*http.Request) (transport.Need, error) {
				return transport.Need{Limiter: both, Costs: []int{1, 1000}}, nil
			},
			Used: func(r *http.Response) []int {
				if r.StatusCode != 200 {
					return []int{0, 0}
				}
				return []int{1, 700}
			},
		})
		assert.Equal(t, 200, do(t, paced, newRequest(t, "GET", "http://api.test", nil)))
		states, err := both.States(t.Context())
		require.NoError(t, err)
		assert.InDelta(t, 1800, states[1].Stored, 5)

		require.NoError(t, both.Pause(t.Context(), time.Minute, ""))
		client := &http.Client{Transport: paced, Timeout: 10 * time.Second}
		began := time.Now()
		_, err = client.Get("http://api.test") //nolint:bodyclose // there is no answer
		require.ErrorIs(t, err, reserve.ErrWouldMissDeadline)
		var late *reserve.Error
		require.ErrorAs(t, err, &late)
		assert.InDelta(t, 68*time.Second, late.Wait, float64(time.Second), "1,000 tokens after the pause")
		assert.Less(t, time.Since(began), time.Second)
		time.Sleep(time.Second)
		states, err = both.States(t.Context())
		require.NoError(t, err)
		assert.Zero(t, states[0].Waiting+states[1].Waiting)
	})
}

// TestWrongUse: what cannot be settled is told, and the answer is the caller's all the same.
func TestWrongUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		both := llm(t)
		paced := newTransport(t, transport.Config{
			Base: &script{answers: []reply{{200, ""}}}, Limiter: both, Logger: logTo(&log),
			Used: func(*http.Response) []int { return []int{200} },
		})
		assert.Equal(t, 200, do(t, paced, newRequest(t, "GET", "http://api.test", nil)))
		assert.Contains(t, log.String(), "must be one for each of the 2 limits, got 1")

		log.Reset()
		turn := transport.Need{Limiter: both.Limits()[0]}
		paced = newTransport(t, transport.Config{
			Base: &script{answers: []reply{{200, ""}, {200, ""}}}, Logger: logTo(&log),
			Choose: func(*http.Request) (transport.Need, error) { return turn, nil },
			Used:   func(*http.Response) []int { return []int{200} },
		})
		for range 2 {
			assert.Equal(t, 200, do(t, paced, newRequest(t, "GET", "http://api.test", nil)))
		}
		assert.Equal(t, 1, strings.Count(log.String(), "set reserve.Config.Settles"), log.String())

		turn.Pauses = both
		_, err := paced.RoundTrip(newRequest(t, "GET", "http://api.test", nil))
		assert.ErrorIs(t, err, transport.ErrInvalid)
		assert.ErrorContains(t, err, `Need.Pauses: must be limits of Need.Limiter requests, got requests + tokens`)

		turn.Pauses, turn.Account = nil, both
		_, err = paced.RoundTrip(newRequest(t, "GET", "http://api.test", nil))
		assert.ErrorContains(t, err, `Need.Account: must be limits of Need.Limiter requests, got requests + tokens`)
		turn.Account, turn.Cost = nil, -5
		_, err = paced.RoundTrip(newRequest(t, "GET", "http://api.test", nil))
		assert.ErrorContains(t, err, `Need.Cost: must be 0 or above, got -5`)
		turn.Adapt = &hears{}
		learns := newTransport(t, transport.Config{Learn: true, Choose: func(*http.Request) (transport.Need, error) { return turn, nil }})
		_, err = learns.RoundTrip(newRequest(t, "GET", "http://api.test", nil))
		assert.ErrorContains(t, err, `Need.Adapt: must not be set together with Config.Learn`)
	})
}

// TestPausesWhatIsUsedUp: where the answer names a limit, that one rests; else all do.
func TestPausesWhatIsUsedUp(t *testing.T) {
	const tokensUp = "X-RateLimit-Limit-Tokens: 7500\nX-RateLimit-Remaining-Tokens: 0\nX-RateLimit-Reset-Tokens: 1m0s\nX-RateLimit-Remaining-Requests: 5"
	const requestsUp = "X-RateLimit-Limit-Requests: 57\nX-RateLimit-Remaining-Requests: 0\nX-RateLimit-Reset-Requests: 1m0s"
	for _, c := range []struct {
		name    string
		windows []string
		pauses  bool // the second one alone
		answer  reply
		want    [2]time.Duration
	}{
		{"refused, and one is to rest", nil, true, reply{503, "Retry-After: 7"}, [2]time.Duration{0, 7 * time.Second}},
		{"the last requests, and one is to rest", []string{"requests", "tokens"}, true, reply{200, requestsUp}, [2]time.Duration{time.Minute / 57, 0}},
		{"refused", nil, false, reply{429, "Retry-After: 7"}, [2]time.Duration{7 * time.Second, 7 * time.Second}},
		{"refused, and no limit is said to be used up", []string{"requests", "tokens"}, false, reply{429, "Retry-After: 7"}, [2]time.Duration{7 * time.Second, 7 * time.Second}},
		{"refused for tokens", []string{"requests", "tokens"}, false, reply{429, "Retry-After: 7\n" + tokensUp}, [2]time.Duration{0, 7 * time.Second}},
		{"the last tokens", []string{"requests", "tokens"}, false, reply{200, tokensUp}, [2]time.Duration{0, 4800 * time.Millisecond}},
		{"the last tokens, of an unnamed limit", nil, false, reply{200, tokensUp}, [2]time.Duration{}},
		{"all is well", []string{"requests", "tokens"}, false, reply{200, "X-RateLimit-Remaining-Tokens: 50"}, [2]time.Duration{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				both := llm(t)
				paced := newTransport(t, transport.Config{
					Base: &script{answers: []reply{c.answer}},
					Choose: func(*http.Request) (transport.Need, error) {
						turn := transport.Need{Limiter: both, Costs: []int{1, 600}, Windows: c.windows}
						if c.pauses {
							turn.Pauses = both.Limits()[1]
						}
						return turn, nil
					},
				})
				do(t, paced, newRequest(t, "GET", "http://api.test", nil))
				states, err := both.States(t.Context())
				require.NoError(t, err)
				for i, s := range states {
					assert.InDelta(t, c.want[i], s.Paused, float64(10*time.Millisecond))
				}
			})
		})
	}
}

// TestLearnsWhatIsNamed: of several limits each follows its own window, if it is named.
func TestLearnsWhatIsNamed(t *testing.T) {
	for name, windows := range map[string][]string{"named": {"requests", "tokens"}, "not named": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				both := llm(t)
				paced := newTransport(t, transport.Config{Learn: true,
					Base: &script{answers: []reply{{200, "Anthropic-RateLimit-Requests-Limit: 30\nAnthropic-RateLimit-Tokens-Limit: 6000"}}},
					Choose: func(*http.Request) (transport.Need, error) {
						return transport.Need{Limiter: both, Costs: []int{1, 600}, Windows: windows}, nil
					},
				})
				do(t, paced, newRequest(t, "GET", "http://api.test", nil))
				states, err := both.States(t.Context())
				require.NoError(t, err)
				want := []float64{0.5, 100}
				if windows == nil {
					want = []float64{0.95, 125}
				}
				for i, s := range states {
					assert.InDelta(t, want[i], s.Rate, 1e-6)
				}
			})
		})
	}
}

// TestAdaptsOneOfSeveral: what the limit that adapts has spent is reported, and its rate moves.
func TestAdaptsOneOfSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := llm(t)
		b := bubble.New(t)
		rate, err := adaptive.New(b.Client(), both.Limits()[1], adaptive.Config{Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		defer rate.Close()
		heard := &adapterOf{hears: &hears{}, name: rate.String()}
		paced := newTransport(t, transport.Config{
			Base: &script{answers: []reply{{429, ""}}},
			Choose: func(*http.Request) (transport.Need, error) {
				return transport.Need{Limiter: both, Costs: []int{1, 600}, Adapt: heard}, nil
			},
		})
		do(t, paced, newRequest(t, "GET", "http://api.test", nil))
		assert.Equal(t, []string{"600 true 0s"}, heard.all)
		rate.ReportN(time.Now(), 600, true)
		synctest.Wait()
		states, err := both.States(t.Context())
		require.NoError(t, err)
		assert.InDelta(t, 0.7*125, states[1].Rate, 1e-6)
		assert.False(t, states[0].Set)
	})
}

// adapterOf is an Adapter of one limit.
type adapterOf struct {
	*hears
	name string
}

func (n *adapterOf) String() string { return n.name }
