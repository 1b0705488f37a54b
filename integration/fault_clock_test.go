package integration

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// Redis's clock steps ten minutes forward.
func clockForward(s *faultScene) { s.clockSteps("+10m", 10*time.Minute) }

// Redis's clock steps ten minutes back.
func clockBack(s *faultScene) { s.clockSteps("-10m", -10*time.Minute) }

func (s *faultScene) clockSteps(by string, step time.Duration) {
	s.Helper()
	clock := filepath.Join(s.TempDir(), "clock")
	set := func(offset string) {
		// This takes effect at once: the server reads the file whenever it reads its clock.
		require.NoError(s, os.WriteFile(clock+".new", []byte(offset+"\n"), 0o600))
		require.NoError(s, os.Rename(clock+".new", clock))
	}
	set("+0")
	server := redistest.Private(s, redistest.PrivateOptions{Env: []string{
		// jemalloc asks for the time before the library is ready to answer, and
		// hangs. With libc in front, the server uses libc's malloc.
		"LD_PRELOAD=" + faketime(s.T) + ":libc.so.6", "FAKETIME_TIMESTAMP_FILE=" + clock,
		"FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1",
	}})
	s.job.Redis.URL = server.URL()
	client := server.Client(s)
	offset := func() time.Duration {
		now, err := client.Time(s.Context()).Result()
		require.NoError(s, err)
		return time.Until(now)
	}
	s.load()
	require.InDelta(s, 0, offset(), float64(time.Minute))
	s.fault(func() {
		set(by)
		require.InDelta(s, step, offset(), float64(time.Minute))
	})
	s.close(faultVerdict{clock: true})
}

// faketime finds the library that gives a program another time.
func faketime(t *testing.T) string {
	t.Helper()
	const library = "libfaketime.so.1"
	for _, pattern := range []string{"/usr/lib/*/faketime", "/usr/lib*/faketime", "/usr/local/lib*/faketime"} {
		if found, _ := filepath.Glob(filepath.Join(pattern, library)); len(found) > 0 {
			return found[0]
		}
	}
	redistest.Missing(t, library+" is not there: install faketime (apt-get install faketime)")
	return ""
}
