package integration

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// phase says from when on a provider allows so many calls per second.
type phase struct {
	from time.Time
	rate float64
}

// judgePhases is a strict token bucket whose rate changes, and which bears 200 ms of jitter
// at each: how many of the calls, in order, it refuses, and how many come in each phase.
func judgePhases(calls []time.Time, phases []phase) (refused int, in []int) {
	in = make([]int, len(phases))
	level, at, now := 1+phases[0].rate/5, calls[0], 0
	fill := func(until time.Time) {
		rate := phases[now].rate
		level, at = min(1+rate/5, level+until.Sub(at).Seconds()*rate), until
	}
	for _, c := range calls {
		for now+1 < len(phases) && !c.Before(phases[now+1].from) {
			fill(phases[now+1].from)
			now++
		}
		fill(c)
		if level < 1 {
			refused++
			continue
		}
		level--
		in[now]++
	}
	return refused, in
}

// The limit of 4 processes is halved and doubled under load, and the provider's at the same
// moment: it refuses nothing, and nothing of the limit is wasted.
func TestRateChangesUnderLoad(t *testing.T) {
	long(t, "takes 15 s")
	calmly(t, changeRates)
}

func changeRates(t *testing.T) error {
	const processes, length = 4, 3 * time.Second
	rates := []float64{100, 50, 100, 200, 100}
	server := redistest.New(t)
	var mu sync.Mutex
	var calls []time.Time
	api := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, time.Now())
	}))
	defer api.Close()
	prefix := redistest.Prefix(t)
	limiter, err := reserve.New(server.Client(t), reserve.Config{Name: "api", Prefix: prefix, Limit: reserve.PerSecond(rates[0])})
	require.NoError(t, err)
	defer func() { _ = limiter.Close() }()
	var fleet []*worker
	for range processes {
		fleet = append(fleet, startWorker(t, job{
			Redis: server.URL(), Prefix: prefix, Limit: strconv.Itoa(int(rates[0])) + "/s", API: api.URL, Calls: 50,
		}))
	}
	require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(calls) > 50 }, 10*time.Second, time.Millisecond)
	var phases []phase
	for i, rate := range rates {
		phases = append(phases, phase{time.Now(), rate})
		if i > 0 {
			require.NoError(t, limiter.SetLimit(t.Context(), reserve.PerSecond(rate), 0))
		}
		time.Sleep(length)
	}
	end := time.Now()
	for _, w := range fleet {
		require.Empty(t, w.stop().Errors)
	}
	mu.Lock()
	defer mu.Unlock()
	for len(calls) > 0 && calls[len(calls)-1].After(end) {
		calls = calls[:len(calls)-1]
	}
	phases[0].from = calls[0]
	refused, in := judgePhases(calls, phases)
	var used, allowed float64
	for i, n := range in {
		until := end
		if i+1 < len(phases) {
			until = phases[i+1].from
		}
		used += float64(n)
		allowed += phases[i].rate * until.Sub(phases[i].from).Seconds()
	}
	t.Logf("RATE %s: %d calls at %v/s: %d refused, utilization %.4f, calls in phases %v", server.Kind, len(calls), rates, refused, used/allowed, in)
	if refused > 0 || used/allowed < 0.97 {
		return fmt.Errorf("%d refused, utilization %.4f", refused, used/allowed)
	}
	return nil
}
