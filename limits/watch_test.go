package limits_test

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/limits"
	"github.com/fleetpace/fleetpace/reserve"
)

// In simulated time: a change is in force after one to two intervals, what is wrong is
// logged once, and a file that is being written is not taken.
func TestWatch(t *testing.T) {
	here(t, "limits: [{name: a, limit: 1/s}]")
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		set := load(t, reserve.Config{Logger: log.Logger})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- set.Watch(ctx, time.Second) }()
		pass := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		rate := func() reserve.Limit { return get(t, set, "a").Limit() }

		pass(10500 * time.Millisecond)
		require.Empty(t, log.lines())

		write(t, "limits: [{name: a, limit: 2/s}]")
		pass(time.Second)
		require.Equal(t, reserve.PerSecond(1), rate())
		pass(time.Second)
		require.Equal(t, reserve.PerSecond(2), rate())
		require.Len(t, log.lines(), 1)

		for _, text := range []string{"limits: [", "limits: [{name: b, limit: 1/s}]", "limits: [{name: a, limit: 3/s}]"} {
			write(t, text)
			pass(time.Second)
			require.Equal(t, reserve.PerSecond(2), rate())
		}
		pass(time.Second)
		require.Equal(t, reserve.PerSecond(3), rate())

		write(t, "limits: [{name: a, limit: 4}]")
		pass(10 * time.Second)
		require.NoError(t, os.Remove(file))
		pass(10 * time.Second)
		require.Equal(t, reserve.PerSecond(3), rate())
		write(t, "limits: [{name: a, limit: 4/s}]")
		pass(10 * time.Second)
		require.Equal(t, reserve.PerSecond(4), rate())
		require.Equal(t, []string{
			"INFO fleetpace: a limit has changed file=limits.yaml limit=a was=1/s is=2/s",
			"INFO fleetpace: a limit has changed file=limits.yaml limit=a was=2/s is=3/s",
			`ERROR fleetpace: the file of limits has errors and is ignored; the limits stay unchanged file=limits.yaml` +
				` error=limits.yaml:1: limits[0].limit: has no slash between permits and period` +
				` (in "4"; for example "100/s" or "1000/minute burst 200")`,
			`ERROR fleetpace: the file of limits has errors and is ignored; the limits stay unchanged file=limits.yaml` +
				` error=limits: stat limits.yaml: no such file or directory`,
			"INFO fleetpace: a limit has changed file=limits.yaml limit=a was=3/s is=4/s",
		}, log.lines())

		stop()
		require.NoError(t, <-ended)
	})
}

// Without a Logger of the defaults, that of the program hears of a file that is wrong.
func TestWatchWithoutLogger(t *testing.T) {
	here(t, "limits: [{name: a, limit: 1/s}]")
	synctest.Test(t, func(t *testing.T) {
		log, before := newLog(), slog.Default()
		slog.SetDefault(log.Logger)
		defer slog.SetDefault(before)
		set := load(t, reserve.Config{})
		var watch sync.WaitGroup
		watch.Go(func() { assert.NoError(t, set.Watch(t.Context(), time.Second)) })
		write(t, "limits: [")
		time.Sleep(5 * time.Second)
		require.NoError(t, set.Close())
		watch.Wait()
		require.Len(t, log.lines(), 1)
		require.Contains(t, log.lines()[0], "ERROR fleetpace: the file of limits has errors and is ignored")
	})
}

// Watch ends with the Set.
func TestWatchEndsWithClose(t *testing.T) {
	here(t, "limits: [{name: a, limit: 1/s}]")
	synctest.Test(t, func(t *testing.T) {
		set := load(t, reserve.Config{})
		ended := make(chan error, 1)
		go func() { ended <- set.Watch(t.Context(), time.Hour) }()
		synctest.Wait()
		require.NoError(t, set.Close())
		require.NoError(t, <-ended)
	})
}

func TestWatchInterval(t *testing.T) {
	here(t, "limits: [{name: a, limit: 1/s}]")
	set := load(t, reserve.Config{})
	err := set.Watch(t.Context(), 0)
	require.EqualError(t, err, "limits: invalid interval: must be above 0, got 0s")
	require.ErrorIs(t, err, limits.ErrInvalid)
}
