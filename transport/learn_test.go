package transport_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport"
	"github.com/fleetpace/fleetpace/transport/bodies"
)

// teller is a Base whose answers tell a limit that may change.
type teller struct {
	mu     sync.Mutex
	header http.Header
}

// perMinute tells that many requests per minute, in a bucket.
func (p *teller) perMinute(n int) {
	p.tell("Anthropic-Ratelimit-Requests-Limit", fmt.Sprint(n))
}

func (p *teller) tell(name, value string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.header = http.Header{}
	p.header.Set(name, value)
}

func (p *teller) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &http.Response{StatusCode: 200, Header: p.header.Clone(), Request: r}, nil
}

func call(t *testing.T, paced http.RoundTripper) {
	t.Helper()
	require.Equal(t, 200, do(t, paced, newRequest(t, "GET", "http://api.test", nil)))
}

// TestTightensAtOnce: a lower limit counts from the answer that tells it on, a
// higher one is no reason to go above the limiter's own.
func TestTightensAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &teller{}
		limiter := newLimiter(t, reserve.PerSecond(10).Burst(5))
		paced := newTransport(t, transport.Config{Limiter: limiter, Base: p, Learn: true})
		for i, c := range []struct {
			perMinute int
			set       bool
			rate      float64
		}{{6000, false, 10}, {300, true, 5}, {60, true, 1}, {60, true, 1}} {
			p.perMinute(c.perMinute)
			call(t, paced)
			state := limiter.inForce(t)
			assert.Equal(t, c.set, state.Set, "the provider allows more")
			assert.InDelta(t, c.rate, state.Rate, 1e-6)
			assert.Equal(t, 5, state.Burst)
			if i == 1 {
				assert.InDelta(t, time.Hour, state.SetFor, float64(time.Second))
			}
		}
	})
}

// Towards a higher limit, the rate rises to the limiter's own within a minute. Beyond that it takes steps of a tenth, a
// minute apart, up to what is told or the ceiling.
func TestLoosensSlowly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		ceiling reserve.Limit
		told    int // per minute
		want    float64
	}{
		{"up to what is told", reserve.Limit{}, 300, 5},
		{"up to the limiter's own", reserve.Limit{}, 6000, 10},
		{"up to the ceiling", reserve.PerSecond(20), 6000, 20},
		{"up to what is told, below the ceiling", reserve.PerSecond(20), 900, 15},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &teller{}
				limiter := newLimiter(t, reserve.PerSecond(10))
				paced := newTransport(t, transport.Config{Limiter: limiter, Base: p, Learn: true, Ceiling: c.ceiling})
				p.perMinute(120)
				call(t, paced)
				assert.InDelta(t, 2, limiter.inForce(t).Rate, 1e-6)
				p.perMinute(c.told)
				for range 3 {
					call(t, paced)
					assert.InDelta(t, 2, limiter.inForce(t).Rate, 1e-6)
					time.Sleep(20 * time.Second)
				}
				call(t, paced)
				rate, raised := limiter.inForce(t).Rate, time.Now()
				assert.InDelta(t, min(10, c.want), rate, 1e-6)
				for range 30 * 60 / 20 { // half an hour, a call each 20 s
					call(t, paced)
					rate, raised = rises(t, limiter, rate, raised)
					time.Sleep(20 * time.Second)
				}
				assert.InDelta(t, c.want, rate, 1e-6)
			})
		})
	}
}

// rises checks that the rate rises by a tenth at the most, a minute after it rose last.
func rises(t *testing.T, limiter *limiter, rate float64, raised time.Time) (float64, time.Time) {
	t.Helper()
	now := limiter.inForce(t).Rate
	if now < rate+1e-6 {
		return now, raised
	}
	assert.LessOrEqual(t, now, rate*1.1+1e-6)
	assert.GreaterOrEqual(t, time.Since(raised), time.Minute)
	return now, time.Now()
}

// After slow_down, the rate of two processes is halved at once. Above a million tokens a minute, it returns by half of
// itself in 15 minutes. One overloaded response changes nothing.
func TestSlowDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, reserve.PerMinute(2e6).Burst(1e5))
		var paced []*transport.Transport
		status, code := 0, ""
		for range 2 {
			of := l.Bubble.Limiter(l.Bubble.Client(), reserve.Config{Name: l.Limiter.String(), Limit: reserve.PerMinute(2e6).Burst(1e5)})
			paced = append(paced, newTransport(t, transport.Config{API: bodies.OpenAI, Learn: true, Base: baseFunc(func(r *http.Request) (*http.Response, error) {
				header := http.Header{"X-Ratelimit-Limit-Tokens": {"2000000"}, "X-Ratelimit-Remaining-Tokens": {"1900000"}, "X-Ratelimit-Reset-Tokens": {"3s"}}
				return &http.Response{StatusCode: status, Header: header, Request: r, Body: io.NopCloser(strings.NewReader(`{"error":{"code":"` + code + `"}}`))}, nil
			}), Choose: func(*http.Request) (transport.Need, error) {
				return transport.Need{Limiter: of, Window: "tokens"}, nil
			}}))
		}
		calls := func(of int, answer string) float64 {
			for _, p := range paced[:of] {
				_, err := fmt.Sscan(answer, &status, &code)
				require.NoError(t, err)
				do(t, p, newRequest(t, "POST", "http://api.test", nil))
			}
			return l.inForce(t).Rate * 60
		}
		assert.InDelta(t, 2e6, calls(2, "200 ok"), 1)
		assert.InDelta(t, 2e6, calls(2, "503 server_is_overloaded"), 1)
		assert.InDelta(t, 1e6, calls(1, "429 slow_down"), 1)
		for at := time.Duration(0); at < 40*time.Minute; at += time.Minute {
			most := 1e6 * math.Pow(1.5, math.Floor(at.Minutes()/15))
			assert.LessOrEqual(t, calls(2, "200 ok"), most+1, at)
			time.Sleep(time.Minute)
		}
		assert.InDelta(t, 2e6, calls(2, "200 ok"), 1)
	})
}

// Only failures that say that the provider has too little capacity lower the rate.
func TestFailuresThatAreNoOverload(t *testing.T) {
	for status, want := range map[int]float64{408: 600, 409: 600, 425: 600, 498: 300, 503: 300} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, reserve.PerMinute(600).Burst(20))
			paced := newTransport(t, transport.Config{API: bodies.OpenAI, Learn: true, Limiter: l.Limiter, Base: baseFunc(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: status, Header: http.Header{}, Request: r, Body: io.NopCloser(strings.NewReader("{}"))}, nil
			})})
			for range 5 {
				do(t, paced, newRequest(t, "POST", "http://api.test", nil))
			}
			assert.InDelta(t, want, l.inForce(t).Rate*60, 1, status)
		})
	}
}

// A stream that reports an overload counts as one response, and not as its header and its body: of 20, three such streams
// are more than a tenth, also if the others came in between. Two are not.
func TestOverloadsInStreams(t *testing.T) {
	for failures, rate := range map[int]float64{2: 100, 3: 50} {
		synctest.Test(t, func(t *testing.T) {
			l, i := newLimiter(t, reserve.PerSecond(100)), 0
			paced := newTransport(t, transport.Config{API: bodies.Anthropic, Limiter: l, Learn: true, Base: baseFunc(func(r *http.Request) (*http.Response, error) {
				text := "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
				if i%9 == 0 && i >= 27-9*failures {
					text = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n"
				}
				i++
				return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Request: r, Body: io.NopCloser(strings.NewReader(text))}, nil
			})})
			for range 20 {
				do(t, paced, newRequest(t, "POST", "http://api.test", nil))
				synctest.Wait() // bodies are heard in the background
			}
			assert.InDelta(t, rate, l.inForce(t).Rate, 1e-6)
		})
	}
}

// Many processes that share a limit, and get the same responses, raise it beyond their own no faster than one would. They
// keep it from lapsing.
func TestFleetLoosensSlowly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const processes = 4
		p := &teller{}
		shared := newLimiter(t, reserve.PerSecond(10))
		p.perMinute(300)
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Hour)
		defer stop()
		var wg sync.WaitGroup
		for i := range processes {
			own := shared.Bubble.Limiter(shared.Client(), reserve.Config{Name: shared.Limiter.String(), Limit: reserve.PerSecond(10)})
			paced := newTransport(t, transport.Config{Limiter: own, Base: p, Learn: true, Ceiling: reserve.PerSecond(50)})
			wg.Go(func() {
				for ctx.Err() == nil {
					call(t, paced)
					time.Sleep(time.Duration(20_000+437*i) * time.Millisecond)
				}
			})
		}
		time.Sleep(time.Minute)
		for range 75 { // longer than what is told counts
			time.Sleep(time.Minute)
			state := shared.inForce(t)
			assert.InDelta(t, 5, state.Rate, 1e-6, "it is told again before it lapses")
			assert.True(t, state.Set)
		}
		p.perMinute(1200)
		time.Sleep(30 * time.Second)
		assert.LessOrEqual(t, shared.inForce(t).Rate, 10.0)
		time.Sleep(90 * time.Second)
		rate, raised := shared.inForce(t).Rate, time.Time{}
		assert.GreaterOrEqual(t, rate, 10.0)
		for range 15 * 60 / 10 {
			rate, raised = rises(t, shared, rate, raised)
			time.Sleep(10 * time.Second)
		}
		stop()
		wg.Wait()
		assert.InDelta(t, 20, rate, 1e-6)
	})
}

// TestToldLapses: an hour after the last process told, the limiter's own limit
// counts again.
func TestToldLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &teller{}
		limiter := newLimiter(t, reserve.PerSecond(50))
		paced := newTransport(t, transport.Config{Limiter: limiter, Base: p, Learn: true})
		p.perMinute(60)
		call(t, paced)
		assert.InDelta(t, 1, limiter.inForce(t).Rate, 1e-6)
		time.Sleep(2 * time.Hour)
		assert.InDelta(t, 50, limiter.inForce(t).Rate, 1e-6)
		call(t, paced)
		assert.InDelta(t, 1, limiter.inForce(t).Rate, 1e-6)
	})
}

// TestWhatIsLearned: which answers tell a limit, and which limit that is.
func TestWhatIsLearned(t *testing.T) {
	for _, c := range []struct {
		name        string
		limit       reserve.Limit
		turn        transport.Need
		share       float64
		field, told string
		want        string // empty: nothing
	}{
		{"a window that does not say how long it is", reserve.PerSecond(10), transport.Need{}, 1, "X-RateLimit-Limit", "60", ""},
		{"none", reserve.PerSecond(10), transport.Need{}, 1, "X-Other", "60", ""},
		{"a window", reserve.PerSecond(10), transport.Need{}, 1, "RateLimit-Policy", `"a";q=120;w=60`, "2/s"},
		{"the strictest of several", reserve.PerSecond(10), transport.Need{}, 1, "RateLimit-Policy", `"a";q=5;w=1, "b";q=120;w=60, "c";q=1;w=1;qu="tokens"`, "2/s"},
		{"by name", reserve.PerSecond(10), transport.Need{Window: "c"}, 1, "RateLimit-Policy", `"a";q=5;w=1, "c";q=1;w=1;qu="tokens"`, "1/s"},
		{"a burst comes out of a window", reserve.PerSecond(10).Burst(21), transport.Need{}, 1, "RateLimit-Policy", `"a";q=120;w=100`, "1/s burst 21"},
		{"up to half of it", reserve.PerSecond(10).Burst(90), transport.Need{}, 1, "RateLimit-Policy", `"a";q=100;w=50`, "1/s burst 90"},
		{"a burst of more than the window", reserve.PerSecond(10).Burst(500), transport.Need{}, 1, "RateLimit-Policy", `"a";q=100;w=50`, "1/s burst 100"},
		{"a bucket bears the burst", reserve.PerSecond(10).Burst(21), transport.Need{}, 1, "Anthropic-RateLimit-Requests-Limit", "60", "1/s burst 21"},
		{"a burst comes out of a share of a window", reserve.PerSecond(10).Burst(21), transport.Need{}, 0.5, "RateLimit-Policy", `"a";q=120;w=50`, "0.8/s burst 21"},
		{"a burst of more than a share of the window", reserve.PerSecond(10).Burst(90), transport.Need{}, 0.5, "RateLimit-Policy", `"a";q=100;w=50`, "0.5/s burst 50"},
		{"next to nothing is one in MaxPause", reserve.PerSecond(10), transport.Need{}, 1, "RateLimit-Policy", `"a";q=0.001;w=999999999`, "0.01/s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &teller{}
			p.tell(c.field, c.told)
			limiter := newLimiter(t, c.limit)
			c.turn.Limiter = limiter
			paced := newTransport(t, transport.Config{Base: p, Learn: true, Share: c.share, MaxPause: 100 * time.Second,
				Choose: func(*http.Request) (transport.Need, error) { return c.turn, nil }})
			call(t, paced)
			state := limiter.inForce(t)
			assert.Equal(t, c.want != "", state.Set)
			if c.want != "" {
				want, err := reserve.ParseLimit(c.want)
				require.NoError(t, err)
				assert.InDelta(t, want.Rate(), state.Rate, 1e-6)
				assert.Equal(t, want.MaxBurst(), state.Burst)
			}
		})
	}
}

// TestNothingIsLearned: without Learn, and by limits of other kinds.
func TestNothingIsLearned(t *testing.T) {
	p := &teller{}
	p.perMinute(1)
	limiter := newLimiter(t, reserve.PerSecond(10).Burst(5))
	call(t, newTransport(t, transport.Config{Limiter: limiter, Base: p}))
	assert.False(t, limiter.inForce(t).Set)
	quota := newLimiter(t, reserve.Quota(5, reserve.CalendarDay))
	call(t, newTransport(t, transport.Config{Base: p, Learn: true,
		Choose: func(*http.Request) (transport.Need, error) { return transport.Need{Limiter: quota}, nil }}))
	assert.False(t, quota.inForce(t).Set)
}

// TestLearnerFails: a limiter that cannot be told is told again, a second later
// and not at each answer.
func TestLearnerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &teller{}
		p.perMinute(60)
		limiter := newLimiter(t, reserve.PerSecond(10).Burst(10))
		limiter.Refuse(lua.Set)
		var log bytes.Buffer
		paced := newTransport(t, transport.Config{Limiter: limiter, Base: p, Learn: true, Logger: logTo(&log)})
		for range 3 {
			call(t, paced)
		}
		assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte("the test refuses this script")))
		limiter.Refuse(nil)
		time.Sleep(time.Second)
		call(t, paced)
		assert.InDelta(t, 1, limiter.inForce(t).Rate, 1e-6)
		assert.Contains(t, log.String(), "from=\"10/s burst 10\" to=\"1/s burst 10\"")
	})
}

// TestRefusesNothingOnceTold: callers at five times the provider's limit learn it
// from its first answer, and none of the others is refused.
func TestRefusesNothingOnceTold(t *testing.T) {
	t.Parallel()
	const calls, perSecond = 400, 200
	judge := provider.New(provider.TokenBucket(perSecond, 40)) // 200 ms for the machine
	api := httptest.NewServer(judge.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("RateLimit-Policy", fmt.Sprintf(`"default";q=%d;w=60`, perSecond*60))
	})))
	t.Cleanup(api.Close)
	limiter := newLimiter(t, reserve.PerSecond(1000))
	paced := newTransport(t, transport.Config{Limiter: limiter, Learn: true})
	assert.Equal(t, 200, do(t, paced, newRequest(t, "GET", api.URL, nil)))
	var group errgroup.Group
	group.SetLimit(30) // however late they are, no more than the burst come together
	for range calls - 1 {
		group.Go(func() error {
			assert.Equal(t, 200, do(t, paced, newRequest(t, "GET", api.URL, nil)))
			return nil
		})
	}
	require.NoError(t, group.Wait())
	history := judge.History()
	t.Logf("%d calls took %v", len(history), history[len(history)-1].At.Sub(history[0].At))
	assert.Len(t, history, calls)
	assert.InDelta(t, perSecond, limiter.inForce(t).Rate, 1e-6)
}
