package reserve_test

import (
	"bytes"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// book is a log that a test reads.
type book struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *book) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// logged is one process of the fleet, and the log that it writes.
func (b *bubble) logged(limit reserve.Limit) (*reserve.Limiter, *book) {
	log := &book{}
	return b.with(reserve.Config{Name: "api", Group: "shop", Limit: limit, Logger: slog.New(slog.NewTextHandler(log, nil))}), log
}

// A turn that came too late is logged once, with the limit behind its group. A caller may say so before the turn ends.
func TestAMissedTurnIsLogged(t *testing.T) {
	// Where enough trips are known, a turn is due by the way of 1 ms earlier than where they are not.
	for late, over := range map[time.Duration]string{0: "0s", 5 * time.Second: `4\.981?s`} {
		synctest.Test(t, func(t *testing.T) {
			l, log := newBubble(t).logged(reserve.PerSecond(10))
			r, err := l.For("acme").Reserve(t.Context())
			require.NoError(t, err)
			require.NoError(t, r.Wait(t.Context()))
			time.Sleep(late)
			require.NoError(t, r.Late(0, true))
			require.NoError(t, r.Wait(t.Context()))
			require.Regexp(t, "limit=shop/api/acme over_for="+over+"\n", log.String())
		})
	}
}

// What others do to the limit, each process that uses it logs once, with the reason.
func TestWhatOthersDoIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		one, oneLog := b.logged(reserve.PerSecond(1))
		other, otherLog := b.logged(reserve.PerSecond(1))
		done := make(chan error, 12)
		for range 12 {
			go func() { done <- one.Wait(t.Context()) }()
		}
		time.Sleep(1500 * time.Millisecond)
		require.NoError(t, other.Pause(t.Context(), 2*time.Second, "status page is red"))
		time.Sleep(time.Second)
		require.Contains(t, oneLog.String(), `msg="fleetpace: limit paused by another process" limit=shop/api undo="fleetpace resume shop/api" pause=`)
		require.Contains(t, oneLog.String(), `reason="status page is red"`)
		require.NotContains(t, otherLog.String(), "by another process")
		require.NoError(t, other.SetLimit(t.Context(), reserve.PerSecond(0.5), time.Minute))
		time.Sleep(time.Second)
		require.Contains(t, oneLog.String(), "in_force=30/minute")
		require.Equal(t, 2, bytes.Count([]byte(oneLog.String()), []byte("by another process")), oneLog.String())
		require.NotContains(t, otherLog.String(), "another process")
		require.NoError(t, other.SetLimit(t.Context(), reserve.PerSecond(2), time.Minute))
		time.Sleep(time.Second)
		require.Contains(t, oneLog.String(), "in_force=2/s")
		require.NoError(t, other.ResetLimit(t.Context()))
		time.Sleep(time.Second)
		require.Contains(t, oneLog.String(), "a configured limit of the processes is in force now, without an override")
		require.NoError(t, other.Pause(t.Context(), time.Hour, ""))
		require.NoError(t, other.Resume(t.Context()))
		time.Sleep(time.Second)
		require.Contains(t, oneLog.String(), "limit resumed by another process")
		for range 12 {
			require.NoError(t, <-done)
		}
		require.NoError(t, other.Stop(t.Context(), time.Time{}, "no credit"))
		time.Sleep(time.Second)
		require.Contains(t, oneLog.String(), `stopped by another process" limit=shop/api undo="fleetpace resume shop/api"`)
		require.Contains(t, otherLog.String(), `stopped" limit=shop/api undo="fleetpace resume shop/api"`)
		require.NoError(t, one.Close())
		require.NoError(t, other.Close())
	})
}

// Of processes with different limits those whose own is not in force say so, once.
func TestDifferentLimitsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		slow, slowLog := b.logged(reserve.PerSecond(5))
		fast, fastLog := b.logged(reserve.PerSecond(50))
		for range 10 {
			require.NoError(t, slow.Wait(t.Context()))
			require.NoError(t, fast.Wait(t.Context()))
			time.Sleep(time.Second)
		}
		require.Contains(t, fastLog.String(), "limit=api own=50/s in_force=5/s")
		require.Equal(t, 1, bytes.Count([]byte(fastLog.String()), []byte("different limits")))
		require.NotContains(t, slowLog.String(), "different limits")
		require.NoError(t, slow.Close())
		require.NoError(t, fast.Close())
	})
}

// Different limits are told where there is no Logger, too, on slog.Default(): by the process whose
// own limit is not in force, once per change. That a process uses the limit at times only is no
// change.
func TestDifferentLimitsAreToldWithoutALogger(t *testing.T) {
	log := &book{}
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	defer slog.SetDefault(before)
	for name, rests := range map[string][2]time.Duration{
		"both use it all the time": {time.Second, time.Second}, "the fast one rests": {time.Second, 15 * time.Second}, "both rest": {15 * time.Second, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log.text.Reset()
				b := newBubble(t)
				fast := b.limiter(reserve.PerSecond(50))
				use := func(l *reserve.Limiter, rest time.Duration) {
					for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(rest) {
						require.NoError(t, l.Wait(t.Context()))
					}
				}
				for i, told := range []int{0, 1, 1, 2, 3} {
					other := reserve.PerSecond([]float64{50, 5, 50, 5, 2}[i])
					slow := b.limiter(other)
					var both sync.WaitGroup
					both.Go(func() { use(slow, rests[0]) })
					both.Go(func() { use(fast, rests[1]) })
					both.Wait()
					require.Equal(t, told, bytes.Count([]byte(log.String()), []byte("different limits")), log.String())
					require.Equal(t, told, bytes.Count([]byte(log.String()), []byte("limit=api own=50/s in_force=")), log.String())
					require.NoError(t, slow.Close())
					time.Sleep(11 * time.Minute)
				}
				require.Contains(t, log.String(), "in_force=2/s")
				require.NoError(t, fast.Close())
			})
		})
	}
}

// Who lets calls through while Redis is away says how many.
func TestCallsWithoutRedisAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, log := b.logged(reserve.PerSecond(10))
		require.NoError(t, l.Wait(t.Context()))
		time.Sleep(2 * time.Second)
		b.mini.SetError("LOADING Redis is loading the dataset in memory")
		for range 20 {
			require.NoError(t, l.Wait(t.Context()))
		}
		b.mini.SetError("")
		time.Sleep(5 * time.Second)
		require.NoError(t, l.Wait(t.Context()))
		require.Contains(t, log.String(), `msg="fleetpace: outage over; permits used without Redis were charged to the limit" limit=api permits=20 outage=`)
		require.NoError(t, l.Close())
	})
}

// Where Redis forbids a process to listen to news, it tries rarely and ever less often. Its calls have their turns.
func TestForbiddenNewsAreTriedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		require.NoError(t, b.client().Ping(t.Context()).Err()) // the first connection makes the server
		var tries atomic.Int64
		b.mini.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
			if cmd != "SUBSCRIBE" {
				return false
			}
			tries.Add(1)
			c.WriteError("NOPERM this user has no permissions to access the 'fleetpace' channel")
			return true
		})
		l := b.limiter(reserve.PerMinute(1))
		began := time.Now()
		for range 6 {
			require.NoError(t, l.Wait(t.Context()))
		}
		t.Logf("MEASURE %d tries in %v", tries.Load(), time.Since(began))
		require.LessOrEqual(t, tries.Load(), int64(30))
		require.Positive(t, tries.Load())
		require.Less(t, time.Since(began), 301*time.Second)
	})
}
