package transport_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport"
)

// TestPause: which answers pause the limit, for how long, and what people read
// of it.
func TestPause(t *testing.T) {
	for _, c := range []struct {
		name   string
		turn   transport.Need
		answer reply
		want   []pause
	}{
		{"all is well", transport.Need{}, reply{200, ""}, nil},
		{"refused, in seconds", transport.Need{}, reply{429, "Retry-After: 7"}, pauseOf(7*time.Second, "api.test answered 429")},
		{"refused, in milliseconds", transport.Need{}, reply{429, "Retry-After: 8\nRetry-After-Ms: 7250"}, pauseOf(7250*time.Millisecond, "api.test answered 429")},
		{"refused, at a date", transport.Need{}, reply{503, "Date: Thu, 21 Aug 2025 12:41:00 GMT\nRetry-After: Thu, 21 Aug 2025 12:41:09 GMT"}, pauseOf(9*time.Second, "api.test answered 503")},
		{"refused, and it does not say until when", transport.Need{}, reply{429, ""}, pauseOf(time.Second, "api.test answered 429")},
		{"refused, and it says garbage", transport.Need{}, reply{429, "Retry-After: soon"}, pauseOf(time.Second, "api.test answered 429")},
		{"refused, and it says now", transport.Need{}, reply{429, "Retry-After: 0"}, nil},
		{"refused for good", transport.Need{}, reply{429, "X-Should-Retry: false"}, pauseOf(time.Second, "api.test answered 429")},
		{"refused, at a moment since 1970", transport.Need{}, reply{429, "Date: Thu, 21 Aug 2025 12:41:00 GMT\nRetry-After: 1755780150"}, pauseOf(90*time.Second, "api.test answered 429")},
		{"refused, by a cache", transport.Need{}, reply{429, "Retry-After: 7\nAge: 5"}, nil},
		{"nothing left, by a cache", transport.Need{}, reply{200, "X-RateLimit-Limit: 60\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 30\nAge: 5"}, nil},
		{"nothing left, by a client's cache", transport.Need{}, reply{200, "X-RateLimit-Limit: 60\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 30\nX-From-Cache: 1"}, nil},
		{"overloaded, and it does not say until when", transport.Need{}, reply{503, ""}, nil},
		{"broken", transport.Need{}, reply{500, "Retry-After: 7"}, nil},
		{"with a reason", transport.Need{}, reply{429, "Retry-After: 1\nStripe-Rate-Limited-Reason: endpoint-rate"}, pauseOf(time.Second, "api.test answered 429: endpoint-rate")},
		{"GitHub, primary", transport.Need{}, reply{403, "Date: Thu, 21 Aug 2025 12:41:00 GMT\nX-RateLimit-Limit: 5000\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1755780150\nX-RateLimit-Resource: core"},
			pauseOf(90*time.Second, "api.test answered 403")},
		{"nothing left", transport.Need{}, reply{200, "X-RateLimit-Limit: 60\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 30"}, pauseOf(30*time.Second, "api.test has nothing left")},
		{"one left", transport.Need{}, reply{200, "X-RateLimit-Limit: 60\nX-RateLimit-Remaining: 1\nX-RateLimit-Reset: 30"}, nil},
		{"nothing left of a bucket: the next one comes sooner than all", transport.Need{}, reply{200, "X-RateLimit-Limit-Requests: 60\nX-RateLimit-Remaining-Requests: 0\nX-RateLimit-Reset-Requests: 1m0s"},
			pauseOf(time.Second, "api.test has nothing left")},
		{"no tokens left, but requests are counted", transport.Need{}, reply{200, "RateLimit: \"tokens\";r=0;t=9\nRateLimit-Policy: \"tokens\";q=100;w=60;qu=\"tokens\""}, nil},
		{"no tokens left, and they are counted", transport.Need{Window: "Tokens"}, reply{200, "RateLimit: \"tokens\";r=0;t=9\nRateLimit-Policy: \"tokens\";q=100;w=60;qu=\"tokens\""},
			pauseOf(9*time.Second, "api.test has nothing left")},
		{"another window", transport.Need{Window: "core"}, reply{200, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 30\nX-RateLimit-Resource: search"}, nil},
		{"the longest of several", transport.Need{}, reply{200, `RateLimit: "a";r=0;t=2, "b";r=0;t=20, "c";r=5;t=200`}, pauseOf(20*time.Second, "api.test has nothing left")},
		{"longer than is believed", transport.Need{}, reply{429, "Retry-After: 86400"}, pauseOf(10*time.Minute, "api.test answered 429")},
	} {
		t.Run(c.name, func(t *testing.T) {
			limiter := fast(t)
			c.turn.Limiter = limiter
			base := &script{answers: []reply{c.answer}}
			var log bytes.Buffer
			paced := newTransport(t, transport.Config{Base: base, MaxPause: 10 * time.Minute, Logger: logTo(&log),
				Choose: func(*http.Request) (transport.Need, error) { return c.turn, nil }})
			assert.Equal(t, c.answer.status, do(t, paced, newRequest(t, "GET", "http://api.test/path?key=secret", nil)))
			assert.Equal(t, c.want, limiter.pauses())
			assert.Equal(t, strings.Contains(c.name, "believed"), strings.Contains(log.String(), "Config.MaxPause"))
			assert.NotContains(t, log.String(), "secret")
		})
	}
}

func pauseOf(d time.Duration, reason string) []pause {
	return []pause{{For: d, Reason: reason}}
}

// TestPauseStopsAll: one refusal stops every caller until the moment it named.
func TestPauseStopsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &script{answers: []reply{{429, "Retry-After: 30"}, {200, ""}}}
		limiter := newLimiter(t, reserve.PerSecond(10))
		paced := newTransport(t, transport.Config{Limiter: limiter, Base: base})
		began := time.Now()
		assert.Equal(t, 429, do(t, paced, newRequest(t, "GET", "http://api.test", nil)))
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				assert.Equal(t, 200, do(t, paced, newRequest(t, "GET", "http://api.test", nil)))
				assert.GreaterOrEqual(t, time.Since(began), 30*time.Second)
			})
		}
		wg.Wait()
		assert.InDelta(t, 31.9, time.Since(began).Seconds(), 0.01, "and then at the rate")
		assert.Equal(t, 21, limiter.used())
	})
}

// TestRetryWaits: a retry takes its own turn, after the pause that was asked for,
// whether or not the limiter keeps it.
func TestRetryWaits(t *testing.T) {
	for name, refused := range map[string]*redis.Script{"the limiter pauses": nil, "pausing fails": lua.Pause} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter := newLimiter(t, reserve.PerSecond(10))
				limiter.Refuse(refused)
				base := &script{answers: []reply{{429, "Retry-After: 5"}, {429, ""}, {200, ""}}}
				paced := newTransport(t, transport.Config{Limiter: limiter, Base: base, Retry: transport.Retry{Max: 5}})
				began := time.Now()
				assert.Equal(t, 200, do(t, paced, newRequest(t, "GET", "http://api.test", nil)))
				assert.Equal(t, 3, base.times())
				// 5 s as said; then nothing was said, so a second.
				assert.InDelta(t, 6*time.Second, time.Since(began), float64(10*time.Millisecond))
			})
		})
	}
}

// TestWhatIsRepeated: what is sent again, and how often.
func TestWhatIsRepeated(t *testing.T) {
	again := transport.Retry{Max: 2}
	soon := reply{429, "Retry-After: 2"}
	text := func() io.Reader { return strings.NewReader("x") }
	for _, c := range []struct {
		name    string
		retry   transport.Retry
		method  string
		header  string
		body    io.Reader
		answer  reply
		timeout time.Duration
		times   int
	}{
		{"no retries", transport.Retry{}, "GET", "", nil, soon, 0, 1},
		{"GET", again, "GET", "", nil, soon, 0, 3},
		{"HEAD", again, "HEAD", "", nil, soon, 0, 3},
		{"OPTIONS", again, "OPTIONS", "", nil, soon, 0, 3},
		{"TRACE", again, "TRACE", "", nil, soon, 0, 3},
		{"DELETE", again, "DELETE", "", nil, soon, 0, 3},
		{"PUT", again, "PUT", "", text(), soon, 0, 3},
		{"PUT without GetBody", again, "PUT", "", io.MultiReader(text()), soon, 0, 1},
		{"no body", again, "PUT", "", http.NoBody, soon, 0, 3},
		{"POST", again, "POST", "", text(), soon, 0, 1},
		{"PATCH", again, "PATCH", "", text(), soon, 0, 1},
		{"POST with a key", again, "POST", "Idempotency-Key", text(), soon, 0, 3},
		{"POST with an X- key", again, "POST", "X-Idempotency-Key", text(), soon, 0, 3},
		{"refused without a time", again, "GET", "", nil, reply{429, ""}, 0, 3},
		{"refused for good", again, "GET", "", nil, reply{429, "X-Should-Retry: false"}, 0, 1},
		{"well", again, "GET", "", nil, reply{200, ""}, 0, 1},
		{"broken", again, "GET", "", nil, reply{502, ""}, 0, 1},
		{"broken, and to be repeated", transport.Retry{Max: 2, Statuses: []int{502}}, "GET", "", nil, reply{502, ""}, 0, 3},
		{"longer than is sat out", transport.Retry{Max: 2, MaxWait: time.Second}, "GET", "", nil, soon, 0, 1},
		{"as long as is sat out", transport.Retry{Max: 2, MaxWait: 2 * time.Second}, "GET", "", nil, soon, 0, 3},
		{"longer than is sat out, and than is believed", transport.Retry{Max: 2, MaxWait: 2 * time.Hour}, "GET", "", nil, reply{429, "Retry-After: 86400"}, 0, 1},
		{"longer than the deadline leaves", again, "GET", "", nil, soon, 3 * time.Second, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := &script{answers: []reply{c.answer}}
				limiter := fast(t)
				paced := newTransport(t, transport.Config{Limiter: limiter, Base: base, Retry: c.retry})
				r := newRequest(t, c.method, "http://api.test", c.body)
				if c.header != "" {
					r.Header.Set(c.header, "1")
				}
				if c.timeout > 0 {
					ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
					defer cancel()
					r = r.WithContext(ctx)
				}
				assert.Equal(t, c.answer.status, do(t, paced, r), "the last answer is the caller's")
				assert.Equal(t, c.times, base.times())
				assert.Equal(t, c.times, limiter.used())
				for _, s := range base.sent {
					assert.Equal(t, base.sent[0].body, s.body)
				}
			})
		})
	}
}

// TestBodies: a retry sends the same bytes again, on the same connection.
func TestBodies(t *testing.T) {
	const size = 5 << 20
	want := make([]byte, size)
	_, _ = rand.Read(want)
	var mu sync.Mutex
	var got [][]byte
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		got = append(got, body)
		if len(got) < 3 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, strings.Repeat("no ", 1000))
		}
	}))
	t.Cleanup(api.Close)
	limiter, base := fast(t), &reads{}
	paced := newTransport(t, transport.Config{Limiter: limiter, Base: base, Retry: transport.Retry{Max: 3}})
	assert.Equal(t, 200, do(t, paced, newRequest(t, "PUT", api.URL, bytes.NewReader(want))))
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, got, 3)
	for _, body := range got {
		assert.True(t, bytes.Equal(want, body))
	}
	assert.GreaterOrEqual(t, base.ends.Load(), int32(2), "refused answers are read to their end, so their connections are kept")
	assert.Equal(t, 3, limiter.used())
}

// reads counts the answers that were read to their end.
type reads struct{ ends atomic.Int32 }

func (c *reads) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		answer.Body = &readBody{answer.Body, c}
	}
	return answer, err
}

type readBody struct {
	io.ReadCloser
	of *reads
}

func (b *readBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.of.ends.Add(1)
	}
	return n, err
}

// TestBodyThatCanNotBeHadAgain: then the refusal is the caller's.
func TestBodyThatCanNotBeHadAgain(t *testing.T) {
	base := &script{answers: []reply{{429, "Retry-After: 0"}}}
	paced := newTransport(t, transport.Config{Limiter: fast(t), Base: base, Retry: transport.Retry{Max: 3}})
	r := newRequest(t, "PUT", "http://api.test", strings.NewReader("x"))
	r.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("gone") }
	assert.Equal(t, 429, do(t, paced, r))
	assert.Equal(t, 1, base.times())
}

// TestTrickle: a refusal that never ends does not hold up the retry.
func TestTrickle(t *testing.T) {
	var first sync.Once
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first.Do(func() {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done() // until the client gives up
		})
	}))
	t.Cleanup(api.Close)
	paced := newTransport(t, transport.Config{Limiter: fast(t), Retry: transport.Retry{Max: 1}})
	assert.Equal(t, 200, do(t, paced, newRequest(t, "GET", api.URL, nil)))
}

// TestCancelledInPause: a caller that leaves while its retry waits gets the
// context's error, and the copy of its body is closed.
func TestCancelledInPause(t *testing.T) {
	for name, refused := range map[string]*redis.Script{"kept by the limiter": nil, "slept": lua.Pause} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter := fast(t)
				limiter.Refuse(refused)
				base := &script{answers: []reply{{429, "Retry-After: 60"}}}
				paced := newTransport(t, transport.Config{Limiter: limiter, Base: base, Retry: transport.Retry{Max: 1}})
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				r := newRequest(t, "PUT", "http://api.test", strings.NewReader("x")).WithContext(ctx)
				copied := &closes{Reader: strings.NewReader("x")}
				r.GetBody = func() (io.ReadCloser, error) { return copied, nil }
				began := time.Now()
				_, err := paced.RoundTrip(r) //nolint:bodyclose // there is no answer
				assert.ErrorIs(t, err, context.Canceled)
				assert.Equal(t, time.Second, time.Since(began))
				assert.True(t, copied.closed)
				assert.Equal(t, 1, base.times())
			})
		})
	}
}

// TestInvalid: each wrong setting is refused by its name.
func TestInvalid(t *testing.T) {
	choose := func(*http.Request) (transport.Need, error) { return transport.Need{}, nil }
	for _, c := range []struct {
		config transport.Config
		want   string
	}{
		{transport.Config{}, "Config.Limiter: must be set"},
		{transport.Config{Limiter: fast(t), Choose: choose}, "Config.Choose: must not be set together"},
		{transport.Config{Choose: choose, Adapt: &hears{}}, "Config.Adapt: must not be set together with Config.Choose"},
		{transport.Config{Limiter: fast(t), Learn: true, Adapt: &hears{}}, "Config.Adapt: must not be set together with Config.Learn"},
		{transport.Config{Limiter: fast(t), Share: 1.5}, "Config.Share: must be above 0 and at most 1, or 0 for 1, got 1.5"},
		{transport.Config{Limiter: fast(t), MaxPause: -1}, "Config.MaxPause: must be positive, or 0 for the default, got -1ns"},
		{transport.Config{Limiter: fast(t), Retry: transport.Retry{Max: -1}}, "Config.Retry.Max: must be at least 0, got -1"},
		{transport.Config{Limiter: fast(t), Retry: transport.Retry{MaxWait: -1}}, "Config.Retry.MaxWait: must be positive"},
		{transport.Config{Limiter: fast(t), Retry: transport.Retry{Statuses: []int{200}}}, "Config.Retry.Statuses: must be failures from 400 to 599, got 200"},
		{transport.Config{Limiter: fast(t), Ceiling: reserve.PerSecond(1)}, "Config.Ceiling: is only for Config.Learn, got 1/s"},
		{transport.Config{Limiter: fast(t), Learn: true, Ceiling: reserve.PerSecond(-1)}, "Config.Ceiling: reserve: invalid Limit"},
	} {
		t.Run(c.want, func(t *testing.T) {
			_, err := transport.New(c.config)
			assert.ErrorIs(t, err, transport.ErrInvalid)
			assert.ErrorContains(t, err, c.want)
		})
	}
}
