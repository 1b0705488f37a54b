package inbound_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/inbound"
	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

// At one moment 200 clients ask three processes: as many as the burst pass, the
// others are refused, and being refused cost nothing: ten seconds later the one
// permit of these is there for one of them.
func TestExactlyTheAllowedPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		limit := reserve.PerMinute(6).Burst(10)
		sites := []*site{b.site(limit, inbound.Config{}), b.site(limit, inbound.Config{}), b.site(limit, inbound.Config{})}
		ask := func(after int) map[int]int {
			var mu sync.Mutex
			codes := make(map[int]int)
			var clients sync.WaitGroup
			for i := range 200 {
				clients.Go(func() {
					w := sites[i%len(sites)].get(t.Context(), "")
					mu.Lock()
					defer mu.Unlock()
					codes[w.Code]++
					if w.Code == http.StatusTooManyRequests {
						assert.Equal(t, after, retryAfter(t, w))
					}
				})
			}
			clients.Wait()
			return codes
		}
		require.Equal(t, map[int]int{http.StatusOK: 10, http.StatusTooManyRequests: 190}, ask(10))
		time.Sleep(10 * time.Second)
		require.Equal(t, map[int]int{http.StatusOK: 1, http.StatusTooManyRequests: 199}, ask(10))
		time.Sleep(95 * time.Second)
		require.Equal(t, map[int]int{http.StatusOK: 9, http.StatusTooManyRequests: 191}, ask(5))
		require.EqualValues(t, 20, sites[0].served.Load()+sites[1].served.Load()+sites[2].served.Load())
	})
}

// Five minutes in which ten clients of two processes ask again whenever Retry-After says:
// the limit holds at the handler, and as good as all of it is used.
func TestClientsThatComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, burst, length = 0.5, 3, 5 * time.Minute
		b := newBubble(t)
		api := provider.New(provider.TokenBucket(rate, burst))
		var passed, refused atomic.Int64
		var clients sync.WaitGroup
		limited := make([]http.Handler, 2)
		for i := range limited {
			middleware, err := inbound.Middleware(b.limiter(reserve.PerSecond(rate).Burst(burst), reserve.Outage{}), inbound.Config{})
			require.NoError(t, err)
			limited[i] = middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { api.Judge(1) }))
		}
		ends := time.Now().Add(length)
		for i := range 10 {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			clients.Go(func() {
				for time.Now().Before(ends) {
					time.Sleep(time.Duration(random.IntN(1_000_000)) * time.Microsecond)
					w := httptest.NewRecorder()
					limited[i%2].ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
					if w.Code == http.StatusOK {
						passed.Add(1)
						continue
					}
					refused.Add(1)
					time.Sleep(time.Duration(retryAfter(t, w)) * time.Second)
				}
			})
		}
		clients.Wait()
		t.Logf("SERVE 10 clients, %v at %v/s: %d passed, %d refused", length, rate, passed.Load(), refused.Load())
		require.Zero(t, api.Summary().Refused, "at the handler")
		require.GreaterOrEqual(t, float64(passed.Load()), 0.95*rate*length.Seconds())
		require.NotZero(t, refused.Load())
	})
}

// Retry-After is the wait that the request would have had, rounded up: then it
// passes, and a second earlier it does not.
func TestRetryAfterIsTruthful(t *testing.T) {
	limits := []reserve.Limit{
		reserve.PerSecond(50), reserve.PerSecond(3).Burst(7), reserve.PerMinute(7).Burst(3),
		reserve.PerHour(100).Burst(20), reserve.PerDay(10).Burst(2), reserve.Every(90 * time.Second),
	}
	for _, limit := range limits {
		t.Run(limit.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(7, 7))
				refused := 0
				for range 10 {
					b := newBubble(t) // a bucket of its own
					cost := 1 + random.IntN(limit.MaxBurst())
					s := b.site(limit, inbound.Config{Cost: func(*http.Request) int { return cost }})
					w := s.get(t.Context(), "")
					for w.Code == http.StatusOK {
						time.Sleep(time.Duration(random.Int64N(int64(limit.Interval()))))
						w = s.get(t.Context(), "")
					}
					require.Equal(t, http.StatusTooManyRequests, w.Code)
					refused++
					after := time.Duration(retryAfter(t, w)) * time.Second
					if after > time.Second {
						time.Sleep(after - time.Second)
						require.Equal(t, http.StatusTooManyRequests, s.get(t.Context(), "").Code, "a second too early")
						after = time.Second
					}
					time.Sleep(after)
					require.Equal(t, http.StatusOK, s.get(t.Context(), "").Code, "when it was told to come back")
				}
				require.Equal(t, 10, refused)
			})
		})
	}
}

// A request waits for its turn if that comes within MaxWait, and is refused at once if not.
func TestWaitsUpToMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		s := b.site(reserve.PerSecond(1), inbound.Config{MaxWait: 2500 * time.Millisecond})
		start := time.Now()
		var clients sync.WaitGroup
		var mu sync.Mutex
		passed := make(map[time.Duration]int)
		for range 10 {
			clients.Go(func() {
				w := s.get(t.Context(), "")
				mu.Lock()
				defer mu.Unlock()
				if w.Code == http.StatusOK {
					passed[time.Since(start).Round(time.Millisecond)]++
					return
				}
				assert.Zero(t, time.Since(start), "refused at once")
				// Of those that come at the same moment, some count others that are refused.
				assert.GreaterOrEqual(t, retryAfter(t, w), 3)
				assert.LessOrEqual(t, retryAfter(t, w), 9)
			})
		}
		clients.Wait()
		require.Equal(t, map[time.Duration]int{0: 1, time.Second: 1, 2 * time.Second: 1}, passed)
	})
}

// Whoever goes away while it waits leaves its turn to the next.
func TestCancelledRequestLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		s := b.site(reserve.Every(10*time.Second), inbound.Config{MaxWait: time.Minute})
		require.Equal(t, http.StatusOK, s.get(t.Context(), "").Code)
		start := time.Now()

		impatient, leave := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		clients.Go(func() {
			w := s.get(impatient, "")
			assert.Equal(t, http.StatusServiceUnavailable, w.Code)
			assert.Equal(t, 5*time.Second, time.Since(start))
		})
		time.Sleep(time.Second)
		clients.Go(func() {
			assert.Equal(t, http.StatusOK, s.get(t.Context(), "").Code)
			assert.Equal(t, 10*time.Second, time.Since(start).Round(time.Millisecond), "the turn of the one that left")
		})
		time.Sleep(4 * time.Second)
		leave()
		clients.Wait()
		require.EqualValues(t, 2, s.served.Load())
	})
}

// A request that has less time than MaxWait is refused when its turn comes too late.
func TestDeadlineOfTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		s := b.site(reserve.Every(10*time.Second), inbound.Config{MaxWait: time.Minute})
		require.Equal(t, http.StatusOK, s.get(t.Context(), "").Code)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		w := s.get(ctx, "")
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, 10, retryAfter(t, w))
		require.Zero(t, time.Since(start))
	})
}

// A decision is one round trip, a refusal too; the figures for a request that passes
// are one more.
func TestRoundTrips(t *testing.T) {
	for name, test := range map[string]struct {
		config        inbound.Config
		pass, refusal int64
	}{
		"as it comes":  {inbound.Config{}, 1, 1},
		"every answer": {inbound.Config{EveryAnswer: true}, 2, 1},
		"no headers":   {inbound.Config{EveryAnswer: true, Headers: inbound.HeadersNone}, 1, 1},
		"free of cost": {inbound.Config{Cost: func(*http.Request) int { return 0 }}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				s := b.site(reserve.PerMinute(1).Burst(20), test.config)
				s.get(t.Context(), "") // loads the scripts
				s.get(t.Context(), "")
				before := b.Scripts.Load()
				for range 10 {
					require.Equal(t, http.StatusOK, s.get(t.Context(), "").Code)
				}
				require.Equal(t, 10*test.pass, b.Scripts.Load()-before)
				if test.pass == 0 {
					return
				}
				for s.get(t.Context(), "").Code == http.StatusOK {
				}
				before = b.Scripts.Load()
				for range 10 {
					require.Equal(t, http.StatusTooManyRequests, s.get(t.Context(), "").Code)
				}
				require.Equal(t, 10*test.refusal, b.Scripts.Load()-before)
			})
		})
	}
}

// Tenants have their own requests and day, and share what the machine bears. A request that
// calls no model needs none of its tokens, and one that is refused has used nothing of any.
func TestSeveralLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		turns := b.Joint(b.Client(),
			reserve.Config{Limit: reserve.PerMinute(6).Burst(3)},
			reserve.Config{Limit: reserve.Quota(100, reserve.CalendarDay)},
			reserve.Config{Limit: reserve.PerMinute(60).Burst(500)})
		s := newSite(t, turns, inbound.Config{Key: tenant, Keyed: 2, Costs: func(r *http.Request) []int {
			switch r.Header.Get("Tenant") {
			case "free":
				return []int{0, 0, 0}
			case "plain":
				return []int{1, 1, 0}
			case "wrong":
				return []int{1}
			}
			return []int{1, 1, 200}
		}})
		for i, want := range []struct {
			tenant string
			code   int
		}{
			{"a", 200}, {"a", 200}, {"a", 429}, // 100 tokens are left
			{"b", 429}, {"plain", 200}, {"plain", 200}, {"plain", 200}, {"plain", 429},
			{"free", 200}, {"", 400}, {"wrong", 500},
		} {
			require.Equal(t, want.code, s.get(t.Context(), want.tenant).Code, "request %d", i)
		}
		time.Sleep(100 * time.Second)
		require.Equal(t, 200, s.get(t.Context(), "b").Code)
		limits := turns.Limits()
		for _, left := range []struct {
			limit *reserve.Limiter
			want  float64
		}{{limits[0].For("b"), 2}, {limits[1].For("b"), 99}, {limits[1].For("a"), 98}, {limits[1].For("plain"), 97}, {limits[2], 0}} {
			state, err := left.limit.State(t.Context())
			require.NoError(t, err)
			require.Equal(t, left.want, state.Stored, left.limit)
		}
	})
}

func tenant(r *http.Request) (string, error) {
	if r.Header.Get("Tenant") == "nobody" {
		return "", errors.New("a detail that is nobody's business")
	}
	return r.Header.Get("Tenant"), nil
}
