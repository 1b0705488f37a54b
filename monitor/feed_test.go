package monitor

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/reserve"
)

// view is what somebody gets who opens a page.
func view(t *testing.T, p *Page, path string) string {
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	return w.Body.String()
}

// The history is kept although nobody views the page: an hour of it, in which a pause and the calls show. Then the
// feed reads rarely.
func TestHistoryWithoutViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		l := b.Limiter(b.Client(), reserve.Config{Name: "api", Limit: reserve.PerSecond(2)})
		p, err := New(b.Client(), Config{})
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Close()) }()
		caller := func(until time.Time) {
			for time.Now().Before(until) {
				require.NoError(t, l.Wait(t.Context()))
			}
		}
		began := time.Now()
		caller(began.Add(10 * time.Minute))
		require.NoError(t, l.Pause(t.Context(), 5*time.Minute, "red"))
		caller(began.Add(20 * time.Minute))

		require.Contains(t, view(t, p, "/limit?name=api"), `class="plot"`)
		p.feed.mu.Lock()
		past := p.feed.last.past["api"]
		p.feed.mu.Unlock()
		require.InDelta(t, 60, len(past), 2, "20 minutes of spans")
		paused := 0
		for i := range past {
			if past[i].paused {
				paused++
			}
		}
		require.InDelta(t, 15, paused, 2, "five minutes of them")
		require.InDelta(t, 2, past[len(past)-2].used, 0.3, "permits per second")
		require.Equal(t, 1, strings.Count(view(t, p, "/"), `class="band"`), "the pause is drawn")

		require.NoError(t, l.SetLimit(t.Context(), reserve.PerSecond(1), time.Minute))
		caller(began.Add(26 * time.Minute))
		hour := view(t, p, "/limit?name=api")
		require.Equal(t, 2, strings.Count(hour, `class="band-set"`), "in both charts")
		require.Contains(t, hour, "another limit set")
		require.Contains(t, hour, "The last hour")
		brief := view(t, p, "/limit?name=api&range=10m")
		require.Contains(t, brief, `viewBox="0 0 30 100"`)
		require.Contains(t, brief, `data-events="events?name=api&amp;range=10m"`, "looks keep the range")
		require.Zero(t, strings.Count(brief, `class="band"`), "the pause was before")
		require.Contains(t, brief, "at most in the last 10 minutes")
		require.NotContains(t, brief, "read since")
		day := view(t, p, "/limit?name=api&range=24h")
		require.Contains(t, day, "The last 24 hours")
		require.Contains(t, day, "read since")
		require.Equal(t, 2, strings.Count(day, `class="band"`))
		p.feed.mu.Lock()
		long := len(p.feed.last.day["api"])
		p.feed.mu.Unlock()
		require.InDelta(t, 4, long, 1, "26 minutes of spans of 8 minutes")
	})
}

// Whoever views the page first sees the state of that moment, however long ago the feed has read for its history.
func TestFirstViewIsFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		l := b.Limiter(b.Client(), reserve.Config{Name: "api", Limit: reserve.PerSecond(2)})
		p, err := New(b.Client(), Config{})
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Close()) }()
		for _, after := range []time.Duration{1, 3, 7, 9, 12, 19} { // seconds after a reading
			require.NoError(t, l.Wait(t.Context()))
			time.Sleep(linger + step)
			p.feed.mu.Lock()
			news := p.feed.news
			p.feed.mu.Unlock()
			<-news
			time.Sleep(after * time.Second)
			require.NoError(t, l.Pause(t.Context(), time.Hour, "red"))
			require.Contains(t, view(t, p, "/"), "It is paused", "%d s", after)
			require.NoError(t, l.Resume(t.Context()))
		}
	})
}

// An hour is remembered, spans without a reading stay empty, and limits that are gone are forgotten.
func TestRemember(t *testing.T) {
	past := map[string][]moment{"gone": {{at: 1}}}
	now := time.Unix(1_000_000, 0)
	lines := []fleet.Line{{Name: "api", Busiest: fleet.Busiest{Used: 1, Of: 4}}}
	for i := range 400 {
		if i < 350 || i > 380 {
			past = remember(past, lines, step, now.Add(time.Duration(i)*step))
			past = remember(past, lines, step, now.Add(time.Duration(i)*step))
		}
	}
	require.Len(t, past, 1)
	values := past["api"]
	require.Len(t, values, history)
	require.Equal(t, 2., values[0].looks)
	end := now.Add(399 * step)
	plot := newPlot(values, rangeOf("1h"), end, used, of)
	require.Equal(t, 2, strings.Count(plot.path(used, true), "Z"), "two areas, and nothing between them")
	require.Equal(t, 2, strings.Count(plot.path(used, false), "M"))
}

func TestCounted(t *testing.T) {
	for n, text := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 41_866: "41,866", 1_000_000: "1,000,000"} {
		require.Equal(t, text, counted(n))
	}
}
