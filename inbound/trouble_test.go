package inbound_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/inbound"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// Each way in which a request is not decided on, and its answer.
func TestAnswersToTrouble(t *testing.T) {
	costs := func(n int) func(*http.Request) int { return func(*http.Request) int { return n } }
	for name, test := range map[string]struct {
		config inbound.Config
		policy reserve.Policy
		away   bool // Redis
		closed bool // the limiter
		tenant string
		code   int
		after  time.Duration // how long the answer takes
		logged int
	}{
		"no key":                     {config: inbound.Config{Key: tenant}, code: 400},
		"an error instead of a key":  {config: inbound.Config{Key: tenant}, tenant: "nobody", code: 400},
		"no key, pass on error":      {config: inbound.Config{Key: tenant, PassOnError: true}, code: 400},
		"a cost above the burst":     {config: inbound.Config{Cost: costs(4), PassOnError: true}, code: 400},
		"a cost below 0":             {config: inbound.Config{Cost: costs(-1), PassOnError: true}, code: 500, logged: 1},
		"free of cost":               {config: inbound.Config{Cost: costs(0)}, away: true, policy: reserve.PolicyFail, code: 200},
		"Redis is away, fail":        {away: true, policy: reserve.PolicyFail, code: 503, logged: 1, after: 4 * time.Second},
		"Redis is away, and pass":    {config: inbound.Config{PassOnError: true}, away: true, policy: reserve.PolicyFail, code: 200, logged: 1, after: 4 * time.Second},
		"Redis is away, wait":        {config: inbound.Config{MaxWait: 3 * time.Second}, away: true, policy: reserve.PolicyWait, code: 503, logged: 1, after: 4 * time.Second},
		"Redis is away, do not wait": {away: true, policy: reserve.PolicyWait, code: 503, logged: 1, after: time.Second},
		"Redis is away, open":        {config: inbound.Config{MaxWait: 3 * time.Second, EveryAnswer: true}, away: true, policy: reserve.PolicyOpen, code: 200, after: 4 * time.Second},
		"the limiter is closed":      {closed: true, code: 503, logged: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				b := newBubble(t)
				limiter := b.limiter(reserve.PerMinute(6).Burst(3), reserve.Outage{Policy: test.policy})
				test.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
				s := newSite(t, limiter, test.config)
				if test.away {
					b.Redis.SetError("LOADING Redis is loading the dataset in memory")
				}
				if test.closed {
					require.NoError(t, limiter.Close())
				}
				start := time.Now()
				w := s.get(t.Context(), test.tenant)
				require.Equal(t, test.code, w.Code, w.Body)
				require.LessOrEqual(t, time.Since(start), test.after)
				require.Equal(t, test.logged, strings.Count(log.String(), "\n"), log.String())
				require.Equal(t, test.code == http.StatusOK, s.served.Load() == 1)
				if test.code == http.StatusServiceUnavailable {
					require.Equal(t, 1, retryAfter(t, w))
				}
				if test.code != http.StatusOK {
					var problem struct {
						Type   string
						Status int
						Detail string
					}
					require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
					require.NoError(t, json.Unmarshal(w.Body.Bytes(), &problem))
					require.Equal(t, test.code, problem.Status)
					require.NotContains(t, w.Body.String(), "business", "what went wrong inside is not the client's")
				}
				b.Redis.SetError("")
			})
		})
	}
}

// While the limit is stopped, requests are refused until its end: new ones, and those that wait. If nobody knows the
// end, they may try again in five minutes.
func TestStoppedLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		limiter := b.limiter(reserve.PerMinute(6), reserve.Outage{})
		s := newSite(t, limiter, inbound.Config{MaxWait: time.Minute, PassOnError: true})
		require.Equal(t, http.StatusOK, s.get(t.Context(), "").Code)
		time.AfterFunc(time.Second, func() { assert.NoError(t, limiter.Stop(t.Context(), time.Now().Add(time.Hour), "closed")) })
		for range 2 {
			w := s.get(t.Context(), "")
			require.Equal(t, http.StatusTooManyRequests, w.Code, w.Body)
			require.InDelta(t, 3600, retryAfter(t, w), 1)
		}
		require.NoError(t, limiter.Stop(t.Context(), time.Time{}, "no credit"))
		require.InDelta(t, 300, retryAfter(t, s.get(t.Context(), "")), 1)
		try, err := limiter.Try(t.Context())
		require.NoError(t, err)
		require.Equal(t, 5*time.Minute, try.RetryAfter)
	})
}

// Figures are not worth waiting for: after a failure one request a second asks.
func TestFiguresWithoutRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		limiter := b.limiter(reserve.PerMinute(6000).Burst(1000), reserve.Outage{Policy: reserve.PolicyOpen})
		s := newSite(t, limiter, inbound.Config{EveryAnswer: true})
		require.NotEmpty(t, s.get(t.Context(), "").Header().Get("RateLimit"))
		b.Redis.SetError("LOADING")
		for range 20 { // until the circuit breaker is open
			s.get(t.Context(), "")
			time.Sleep(500 * time.Millisecond)
		}
		before, start := b.Scripts.Load(), time.Now()
		for range 100 {
			w := s.get(t.Context(), "")
			require.Equal(t, http.StatusOK, w.Code)
			require.Empty(t, w.Header().Get("RateLimit"))
			require.NotEmpty(t, w.Header().Get("RateLimit-Policy"))
		}
		require.Zero(t, time.Since(start))
		require.LessOrEqual(t, b.Scripts.Load()-before, int64(2))
		b.Redis.SetError("")
		time.Sleep(5 * time.Second)
		require.NotEmpty(t, s.get(t.Context(), "").Header().Get("RateLimit"), "Redis is back")
	})
}

// Whatever clients send, a line of the log is written once a second at the most.
func TestLogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := newBubble(t).site(reserve.PerMinute(6), inbound.Config{
			Cost:   func(*http.Request) int { return -1 },
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		for range 100 {
			s.get(t.Context(), "")
		}
		require.Equal(t, 1, strings.Count(log.String(), "\n"))
		time.Sleep(time.Second)
		s.get(t.Context(), "")
		require.Equal(t, 2, strings.Count(log.String(), "\n"))
		require.Contains(t, log.String(), "unreported=99")
	})
}

// Keys of any length and content have lines of their own.
func TestKeysOfHostileClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		s := b.site(reserve.PerHour(1), inbound.Config{Key: tenant})
		long := strings.Repeat("x", 100_000)
		for _, key := range []string{
			"a", "b", "{a}", "a:waiting", "\r\nSET a b", "\x00\xff", strings.Repeat("x", 512), strings.Repeat("x", 513), long, long + "y",
		} {
			require.Equal(t, http.StatusOK, s.get(t.Context(), key).Code, "%.20q", key)
			require.Equal(t, http.StatusTooManyRequests, s.get(t.Context(), key).Code, "%.20q", key)
		}
		for _, name := range b.Redis.Keys() {
			require.Less(t, len(name), 600)
		}
		time.Sleep(3 * time.Hour)
		require.Equal(t, []string{lua.Index(reserve.DefaultPrefix)}, b.Redis.Keys(), "and they go, but for the index of names")
	})
}

func TestMiddlewareRefusesSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newBubble(t).limiter(reserve.PerMinute(6), reserve.Outage{})
		for want, config := range map[string]inbound.Config{
			"Config.MaxWait: must be from 0 to 1h0m0s, got -1ns":              {MaxWait: -1},
			"Config.MaxWait: must be from 0 to 1h0m0s, got 2h0m0s":            {MaxWait: 2 * time.Hour},
			"Config.Headers: must be ietf, legacy, both or none, got \"all\"": {Headers: "all"},
			"Config.Policies: must be printable ASCII, got \"a\\nb\"":         {Policies: []string{"a\nb"}},
			"Config.Policies: must have from 1 to 64 bytes each, got 65":      {Policies: []string{strings.Repeat("p", 65)}},
		} {
			_, err := inbound.Middleware(limiter, config)
			require.ErrorIs(t, err, inbound.ErrInvalid)
			require.ErrorContains(t, err, want)
		}
		limits := newBubble(t).Joint(newBubble(t).Client(), reserve.Config{Limit: reserve.PerSecond(1)}, reserve.Config{Limit: reserve.PerHour(1)})
		for want, config := range map[string]inbound.Config{
			"Config.Keyed: must be from 1 to the number of limits, 2, or 0": {Keyed: 3},
			"Config.Policies: must be one for each of the 2 limits, got 1":  {Policies: []string{"a"}},
			"Config.Costs: must not be set together with Config.Cost": {
				Cost: func(*http.Request) int { return 1 }, Costs: func(*http.Request) []int { return nil },
			},
		} {
			_, err := inbound.Middleware(limits, config)
			require.ErrorIs(t, err, inbound.ErrInvalid)
			require.ErrorContains(t, err, want)
		}
		_, err := inbound.Middleware(nil, inbound.Config{})
		require.ErrorContains(t, err, "turns: is nil: make a limiter with reserve.New")
	})
}
