package inbound_test

import (
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/inbound"
	"github.com/fleetpace/fleetpace/reserve"
)

// How a token bucket is told as a quota in a window; see the package documentation.
func TestPolicyOfALimit(t *testing.T) {
	for _, test := range []struct {
		limit  reserve.Limit
		policy string
	}{
		{reserve.PerMinute(100).Burst(100), `"default";q=100;w=60`},
		{reserve.PerHour(1000).Burst(1000), `"default";q=1000;w=3600`},
		{reserve.PerHour(1000).Burst(50), `"default";q=50;w=180`},
		{reserve.PerSecond(10).Burst(10), `"default";q=10;w=1`},
		{reserve.PerSecond(50), `"default";q=50;w=1`},
		{reserve.PerSecond(100).Burst(20), `"default";q=100;w=1`},
		{reserve.PerSecond(10).Burst(15), `"default";q=20;w=2`},
		{reserve.PerSecond(0.1), `"default";q=1;w=10`},
		{reserve.PerSecond(0.1).Burst(3), `"default";q=3;w=30`},
		{reserve.PerMinute(6), `"default";q=1;w=10`},
		{reserve.PerMinute(7), `"default";q=1;w=9`},
		{reserve.Every(90 * time.Second), `"default";q=1;w=90`},
		{reserve.PerDay(1), `"default";q=1;w=86400`},
		{reserve.PerDay(1).Burst(36525), `"default";q=36525;w=3155760000`},
		{reserve.PerSecond(1_000_000).Burst(1_000_000_000), `"default";q=1000000000;w=1000`},
	} {
		header := make(http.Header)
		inbound.NewQuota("default", test.limit, reserve.State{}).SetHeaders(header, inbound.HeadersIETF)
		require.Equal(t, test.policy, header.Get("RateLimit-Policy"), "%v", test.limit)
	}
}

// The figures of each answer, read as a client reads them.
func TestFiguresOfAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		s := b.site(reserve.PerMinute(6).Burst(3), inbound.Config{
			Headers: inbound.HeadersBoth, EveryAnswer: true, Policies: []string{`the "plan"`},
		})
		began := time.Now().Unix()
		for i, want := range []struct {
			code, remaining, reset, full int
			then                         time.Duration
		}{
			{http.StatusOK, 2, 10, 10, 0},
			{http.StatusOK, 1, 20, 20, 0},
			{http.StatusOK, 0, 30, 30, 0},
			{http.StatusTooManyRequests, 0, 10, 30, 2500 * time.Millisecond},
			{http.StatusTooManyRequests, 0, 8, 30, 7500 * time.Millisecond},
			{http.StatusOK, 0, 30, 40, 25 * time.Second},
			{http.StatusOK, 1, 15, 50, time.Hour},
			{http.StatusOK, 2, 10, 3645, 0},
		} {
			w := s.get(t.Context(), "")
			require.Equal(t, want.code, w.Code, "answer %d", i)
			require.Equal(t, []string{`"the \"plan\"";q=3;w=30`}, w.Header().Values("RateLimit-Policy"))
			name, r, reset := readRateLimit(t, w.Header())
			require.Equal(t, `the "plan"`, name)
			require.EqualValues(t, want.remaining, r, "answer %d", i)
			require.EqualValues(t, want.reset, reset, "answer %d", i)
			require.Equal(t, "3", w.Header().Get("X-RateLimit-Limit"))
			require.Equal(t, strconv.Itoa(want.remaining), w.Header().Get("X-RateLimit-Remaining"))
			full, err := strconv.ParseInt(w.Header().Get("X-RateLimit-Reset"), 10, 64)
			require.NoError(t, err)
			require.EqualValues(t, want.full, full-began, "answer %d: a refusal moves it by nothing", i)
			if want.code == http.StatusTooManyRequests {
				require.Equal(t, want.reset, retryAfter(t, w), "not earlier than t")
			} else {
				require.Empty(t, w.Header().Get("Retry-After"))
			}
			time.Sleep(want.then)
		}
	})
}

// A refusal of a dear request tells what is left for others.
func TestFiguresOfADearRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cost := 3
		s := newBubble(t).site(reserve.PerMinute(6).Burst(10), inbound.Config{Cost: func(*http.Request) int { return cost }})
		for range 2 {
			require.Equal(t, http.StatusOK, s.get(t.Context(), "").Code)
		}
		cost = 7
		w := s.get(t.Context(), "")
		require.Equal(t, 30, retryAfter(t, w))
		_, remaining, reset := readRateLimit(t, w.Header())
		require.EqualValues(t, 4, remaining)
		require.EqualValues(t, 30, reset)
		cost = 4
		require.Equal(t, http.StatusOK, s.get(t.Context(), "").Code)
	})
}

func readRateLimit(t *testing.T, header http.Header) (policy string, remaining, reset int64) {
	list, err := httpsfv.UnmarshalList(header.Values("RateLimit"))
	require.NoError(t, err)
	require.Len(t, list, 1)
	item, ok := list[0].(httpsfv.Item)
	require.True(t, ok)
	r, _ := item.Params.Get("r")
	after, _ := item.Params.Get("t")
	policy, _ = item.Value.(string)
	remaining, _ = r.(int64)
	reset, _ = after.(int64)
	return policy, remaining, reset
}

// Which headers are sent, and that middleware around adds to those that are lists.
func TestChoiceOfHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for which, want := range map[inbound.Headers][]string{
			inbound.HeadersIETF:   {"Ratelimit-Policy", "Ratelimit"},
			inbound.HeadersLegacy: {"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
			inbound.HeadersBoth:   {"Ratelimit-Policy", "Ratelimit", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
			inbound.HeadersNone:   nil,
		} {
			s := newBubble(t).site(reserve.PerMinute(1), inbound.Config{Headers: which})
			s.get(t.Context(), "")
			w := s.get(t.Context(), "")
			require.Equal(t, http.StatusTooManyRequests, w.Code)
			var got []string
			for name := range w.Header() {
				if name != "Retry-After" && name != "Content-Type" {
					got = append(got, name)
				}
			}
			require.ElementsMatch(t, want, got, "%s", which)
			require.Equal(t, 60, retryAfter(t, w))
		}

		b := newBubble(t)
		inner := b.site(reserve.PerMinute(1), inbound.Config{Policies: []string{"inner"}})
		outer, err := inbound.Middleware(b.limiter(reserve.PerHour(9).Burst(9), reserve.Outage{}), inbound.Config{
			Policies: []string{"outer"}, Key: func(*http.Request) (string, error) { return "all", nil },
		})
		require.NoError(t, err)
		nested := &site{Handler: outer(inner)}
		list, err := httpsfv.UnmarshalList(nested.get(t.Context(), "").Header().Values("RateLimit-Policy"))
		require.NoError(t, err)
		require.Len(t, list, 2)
	})
}
