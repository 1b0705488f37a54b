package integration

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// served is an API that counts the calls that run at the same time.
type served struct {
	takes func() time.Duration
	// When freed is closed, calls end early, after another takes(). It may be nil.
	freed chan struct{}

	mu              sync.Mutex
	now, most, made int
	last            time.Time // when the last call began
}

func (s *served) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.now, s.made, s.last = s.now+1, s.made+1, time.Now()
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	select {
	case <-time.After(s.takes()):
	case <-s.freed:
		time.Sleep(s.takes())
	case <-r.Context().Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
}

func (s *served) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made
}

// seen returns the most calls that ran at the same time, and when the last one began.
func (s *served) seen() (most int, last time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most, s.last
}

func slotsJob(t *testing.T, slots, callers int, api *served) job {
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	return job{Redis: redistest.New(t).URL(), Prefix: redistest.Prefix(t), Limit: strconv.Itoa(slots) + " at once", API: server.URL, Calls: callers}
}

// Four processes share three slots: no more calls run at the same time, and all processes call.
func TestFourProcessesShareSlots(t *testing.T) {
	long(t, "takes 3 s")
	t.Parallel()
	const slots, calls, takes = 3, 300, 20 * time.Millisecond
	api := &served{takes: func() time.Duration { return takes }}
	j := slotsJob(t, slots, 10, api)
	j.Turns = t.TempDir()
	var fleet []*worker
	for range 4 {
		fleet = append(fleet, startWorker(t, j))
	}
	allCall(t, j.Turns, len(fleet))
	began, before := time.Now(), api.calls()
	require.Eventually(t, func() bool { return api.calls() > before+calls }, liveness, time.Millisecond, "calls go on")
	used := calls * takes.Seconds() / slots / time.Since(began).Seconds()
	for _, w := range fleet {
		r := w.stop()
		require.Empty(t, r.Errors)
		require.Positive(t, r.Calls, "every process has its share")
	}
	most, _ := api.seen()
	require.LessOrEqual(t, most, slots)
	measure(t, t.Name(), map[string]any{"slots": slots, "used": round(used)})
}

// A process that holds all slots is killed. Other processes get the slots soon.
func TestSlotsOfAKilledProcess(t *testing.T) {
	long(t, "takes 5 s")
	t.Parallel()
	const slots = 2
	api := &served{takes: func() time.Duration { return time.Hour }}
	j := slotsJob(t, slots, 5, api)
	victim := startWorker(t, j)
	require.Eventually(t, func() bool { return api.calls() == slots }, liveness, time.Millisecond)
	other := startWorker(t, j)
	time.Sleep(time.Second) // its calls wait
	require.Equal(t, slots, api.calls())
	victim.kill()
	killed := time.Now()
	require.Eventually(t, func() bool { return api.calls() > slots }, liveness, time.Millisecond, "calls go on")
	_, last := api.seen()
	measure(t, t.Name(), map[string]any{"next_call_after_ms": ms(last.Sub(killed))})
	other.kill()
}
