package worker_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/asynqtest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/worker"
)

// lines are what was logged.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.text.String()), "\n")
}

// What keeps all tasks from their turns until somebody mends it is logged, once in ten seconds. An
// outage of Redis is not: the limiter tells of it.
func TestTroubleIsLogged(t *testing.T) {
	for name, trouble := range map[string]struct {
		begin func(f *fleet, l *reserve.Limiter)
		says  string
	}{
		"closed":  {func(f *fleet, l *reserve.Limiter) { require.NoError(f, l.Close()) }, "close a limiter only after"},
		"corrupt": {func(f *fleet, _ *reserve.Limiter) { spoil(f) }, "delete it if nothing else owns it"},
		"away":    {func(f *fleet, _ *reserve.Limiter) { f.limits.Redis.SetError("LOADING Redis is loading") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, f *fleet) {
				f.limits = asynqtest.Open(t)
				l := f.limits.Limiter(f.limits.Client(), reserve.Config{Name: "api", Limit: reserve.PerSecond(10), Logger: quiet,
					Outage: reserve.Outage{Policy: reserve.PolicyFail}})
				var heard lines
				w, err := worker.New(l, worker.Config{Logger: slog.New(slog.NewTextHandler(&heard, nil))})
				require.NoError(t, err)
				require.NoError(t, l.Wait(t.Context()))
				trouble.begin(f, l)
				f.enqueue(0, 50)
				f.Serve(w, asynqtest.Config(5), nil)
				time.Sleep(25 * time.Second)
				said := heard.all()
				f.limits.Redis.SetError("")
				if trouble.says == "" {
					require.Equal(t, []string{""}, said)
					return
				}
				require.Len(t, said, 3)
				for _, line := range said {
					require.Contains(t, line, "level=ERROR")
					require.Contains(t, line, "cannot get turns")
					require.Contains(t, line, trouble.says)
				}
			})
		})
	}
}

// spoil lets the keys of limits hold something else.
func spoil(f *fleet) {
	for _, key := range f.limits.Redis.Keys() {
		f.limits.Redis.Del(key)
		require.NoError(f, f.limits.Redis.Set(key, "something else"))
	}
}
