package limits_test

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/limits"
	"github.com/fleetpace/fleetpace/reserve"
)

const before = `
limits:
  - {name: same, limit: 60/minute burst 5}
  - {name: rate, limit: 10/s}
  - {name: bound, limit: 10/s}
  - {name: key, limit: 10/s, key: "{a}"}
  - {name: gone, limit: 10/s}
`

const after = `
# In another order and other words.
limits:
  - {name: new, limit: 10/s}
  - {name: key, limit: 10/s, key: "{b}"}
  - {name: bound, limit: 10/s, settles: true}
  - {name: rate, limit: 20/s}
  - {name: same, kind: paced, limit: 60/1m burst 5}
`

// Limits that say the same keep their limiters, and one that goes back to what it was has
// the limiter of then.
func TestReload(t *testing.T) {
	here(t, before)
	log := newLog()
	set := load(t, reserve.Config{Logger: log.Logger})
	require.Empty(t, log.lines())
	same, rate, bound := get(t, set, "same"), get(t, set, "rate"), get(t, set, "bound")

	write(t, after)
	changes, err := set.Reload()
	require.NoError(t, err)
	require.Equal(t, limits.Changes{
		Added:   []string{"new"},
		Changed: []string{"key", "bound", "rate"},
		Removed: []string{"gone"},
	}, changes)
	require.True(t, changes.Any())
	require.Equal(t, []string{
		"INFO fleetpace: a limit was added file=limits.yaml limit=new is=10/s",
		"INFO fleetpace: a limit has changed file=limits.yaml limit=key was=10/s, key {a} is=10/s, key {b}",
		"INFO fleetpace: a limit has changed file=limits.yaml limit=bound was=10/s is=10/s, settles",
		"INFO fleetpace: a limit has changed file=limits.yaml limit=rate was=10/s is=20/s",
		"INFO fleetpace: a limit was removed file=limits.yaml limit=gone was=10/s",
	}, log.lines())

	require.Same(t, same, get(t, set, "same"))
	require.NotSame(t, rate, get(t, set, "rate"))
	require.NotSame(t, bound, get(t, set, "bound"))
	require.Equal(t, reserve.PerSecond(20), get(t, set, "rate").Limit())
	_, err = set.Get("gone")
	require.ErrorIs(t, err, limits.ErrUnknown)
	_, err = set.For("key", map[string]string{"a": "x"})
	require.ErrorIs(t, err, limits.ErrInvalid)

	changes, err = set.Reload()
	require.NoError(t, err)
	require.False(t, changes.Any())

	write(t, before)
	_, err = set.Reload()
	require.NoError(t, err)
	require.Same(t, rate, get(t, set, "rate"))
	require.Same(t, bound, get(t, set, "bound"))
}

// A file with errors, or none, changes nothing.
func TestReloadRefused(t *testing.T) {
	here(t, before)
	log := newLog()
	set := load(t, reserve.Config{Logger: log.Logger})
	held := make(map[string]*reserve.Limiter)
	for _, name := range []string{"same", "rate", "bound", "gone"} {
		held[name] = get(t, set, name)
	}
	for _, text := range []string{"", "limits: []", after + "  - {name: new, limit: 1/s}\n", after + "  - {name: b, limit: x}"} {
		write(t, text)
		changes, err := set.Reload()
		require.ErrorIs(t, err, limits.ErrInvalid)
		require.False(t, changes.Any())
	}
	require.NoError(t, os.Remove(file))
	_, err := set.Reload()
	require.ErrorIs(t, err, os.ErrNotExist)

	require.Empty(t, log.lines())
	require.Equal(t, []string{"same", "rate", "bound", "key", "gone"}, set.Names())
	for name, limiter := range held {
		require.Same(t, limiter, get(t, set, name))
	}
}

// Calls that wait when their limit is replaced or removed have their turns, and the queue
// they stand in is the one of the new limiter.
func TestReloadWhileCallsWait(t *testing.T) {
	here(t, "limits: [{name: changed, limit: 1/s}, {name: removed, limit: 1/s}]")
	synctest.Test(t, func(t *testing.T) {
		set, err := limits.Load(inBubble(t), file, reserve.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = set.Close() })

		var calls sync.WaitGroup
		var had atomic.Int64
		for _, name := range []string{"changed", "removed"} {
			limiter := get(t, set, name)
			for range 10 {
				calls.Go(func() {
					if assert.NoError(t, limiter.Wait(t.Context())) {
						had.Add(1)
					}
				})
			}
		}
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		require.EqualValues(t, 2, had.Load())
		write(t, "limits: [{name: changed, limit: 10/s}]")
		_, err = set.Reload()
		require.NoError(t, err)

		// It has its turn behind those who came before, or with one that they left.
		began := time.Now()
		require.NoError(t, get(t, set, "changed").Wait(t.Context()))
		t.Log("the new call had its turn after", time.Since(began))
		require.Greater(t, time.Since(began), 90*time.Millisecond)
		calls.Wait()
		t.Log("the old ones had theirs after", time.Since(began))
		require.EqualValues(t, 20, had.Load())
		require.Less(t, time.Since(began), 10*time.Second)
	})
}

// A limiter that was replaced costs nothing but memory once no call waits in it: here none
// is closed, and the bubble would not end if a goroutine were left.
func TestReplacedLimitersRest(t *testing.T) {
	here(t, "limits: [{name: a, limit: 10/s}]")
	synctest.Test(t, func(t *testing.T) {
		set, err := limits.Load(inBubble(t), file, reserve.Config{})
		require.NoError(t, err)
		var calls sync.WaitGroup
		limiter := get(t, set, "a")
		for range 20 {
			calls.Go(func() { assert.NoError(t, limiter.Wait(t.Context())) })
		}
		write(t, "limits: [{name: a, limit: 20/s}]")
		_, err = set.Reload()
		require.NoError(t, err)
		calls.Wait()
		time.Sleep(2 * time.Minute)
	})
}

// inBubble is a client of a Redis in simulated time.
func inBubble(t testing.TB) *redis.Client { return bubble.New(t).Client() }

// Whoever asks while the file is read again, by several at a time, finds a limiter of one
// file or of the other.
func TestConcurrentReloads(t *testing.T) {
	here(t, before)
	set := load(t, reserve.Config{})
	var readers, writers sync.WaitGroup
	done := make(chan struct{})
	wrong := make(chan string, 100)
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				limiter, err := set.Get("rate")
				if err != nil || limiter.Limit() != reserve.PerSecond(10) && limiter.Limit() != reserve.PerSecond(20) {
					wrong <- fmt.Sprint(limiter, err)
					return
				}
				if names := set.Names(); len(names) != 5 {
					wrong <- fmt.Sprint(names)
					return
				}
			}
		})
	}
	for range 2 {
		writers.Go(func() {
			for range 50 {
				if _, err := set.Reload(); err != nil {
					wrong <- err.Error()
				}
			}
		})
	}
	for i := range 50 {
		write(t, []string{after, before}[i%2])
	}
	writers.Wait()
	close(done)
	readers.Wait()
	require.Empty(t, wrong)
}
