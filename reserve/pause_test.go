package reserve_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// fleetCalls are calls that the processes of a fleet made, in order.
type fleetCalls struct {
	mu    sync.Mutex
	start time.Time
	calls []fleetCall
	done  sync.WaitGroup
}

type fleetCall struct {
	at           time.Duration
	process, nth int // of the process, in the order in which its calls came
}

// wait lets n calls wait in each process, which come one after the other.
func (f *fleetCalls) wait(t *testing.T, processes []*reserve.Limiter, n int) {
	f.start = time.Now()
	for nth := range n {
		for p, l := range processes {
			f.done.Go(func() {
				if !assert.NoError(t, l.Wait(context.Background())) {
					return
				}
				f.mu.Lock()
				defer f.mu.Unlock()
				f.calls = append(f.calls, fleetCall{time.Since(f.start), p, nth})
			})
			synctest.Wait()
		}
	}
}

// between are the calls from one moment to before another.
func (f *fleetCalls) between(from, until time.Duration) []fleetCall {
	f.mu.Lock()
	defer f.mu.Unlock()
	var some []fleetCall
	for _, c := range f.calls {
		if c.at >= from && c.at < until {
			some = append(some, c)
		}
	}
	return some
}

// inOrder asserts that the calls of each process were made in the order in which they
// came.
func (f *fleetCalls) inOrder(t *testing.T) {
	t.Helper()
	last := map[int]int{}
	for _, c := range f.calls {
		assert.GreaterOrEqual(t, c.nth, last[c.process], "process %d at %v", c.process, c.at)
		last[c.process] = c.nth
	}
}

func fleet(b *bubble, n int, limit reserve.Limit) []*reserve.Limiter {
	processes := make([]*reserve.Limiter, n)
	for i := range processes {
		processes[i] = b.limiter(limit)
	}
	return processes
}

func TestPauseMovesEverybodyInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		processes := fleet(newHearingBubble(t), 4, reserve.PerSecond(100))
		var f fleetCalls
		f.wait(t, processes, 125)
		time.Sleep(time.Second + 5*time.Millisecond)
		require.NoError(t, processes[2].Pause(t.Context(), 5*time.Second, "Retry-After: 5"))
		paused := time.Since(f.start)
		state, err := processes[0].State(t.Context())
		require.NoError(t, err)
		assert.InDelta(t, 5*time.Second, state.Paused, float64(time.Millisecond))
		assert.Equal(t, "Retry-After: 5", state.PauseReason)
		f.done.Wait()

		end := paused + 5*time.Second
		assert.Len(t, f.between(0, paused), 101)
		assert.Empty(t, f.between(paused, end), "in the pause")
		after := f.between(end, time.Hour)
		require.Len(t, after, 500-101)
		for i, c := range after {
			assert.InDelta(t, end+time.Duration(i)*10*time.Millisecond, c.at, float64(time.Millisecond), "call %d", i)
		}
		f.inOrder(t)
		state, err = processes[0].State(t.Context())
		require.NoError(t, err)
		assert.Zero(t, state.Paused)
		assert.Empty(t, state.PauseReason)
	})
}

// Stored permits do not come out of a pause.
func TestPauseEmptiesTheBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		processes := fleet(newHearingBubble(t), 2, reserve.PerSecond(10).Burst(20))
		require.NoError(t, processes[0].Wait(t.Context()))
		require.NoError(t, processes[1].Pause(t.Context(), time.Second, ""))
		allowed, err := processes[0].Allow(t.Context())
		require.NoError(t, err)
		assert.False(t, allowed)
		var f fleetCalls
		f.wait(t, processes, 10)
		f.done.Wait()
		for i, c := range f.calls {
			assert.InDelta(t, time.Second+time.Duration(i)*100*time.Millisecond, c.at, float64(time.Millisecond))
		}
	})
}

func TestPausesExtendAndDoNotAddUp(t *testing.T) {
	const gap = 1030 * time.Millisecond
	for name, pauses := range map[string][2]time.Duration{
		"the second is longer":      {2 * time.Second, 5 * time.Second},
		"the second is shorter":     {5 * time.Second, time.Second},
		"they are equal":            {3 * time.Second, 3 * time.Second},
		"the second comes after it": {500 * time.Millisecond, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				processes := fleet(newHearingBubble(t), 2, reserve.PerSecond(10))
				var f fleetCalls
				f.wait(t, processes, 30)
				time.Sleep(gap)
				first := time.Since(f.start)
				require.NoError(t, processes[0].Pause(t.Context(), pauses[0], name))
				time.Sleep(gap)
				second := time.Since(f.start)
				require.NoError(t, processes[1].Pause(t.Context(), pauses[1], name))
				f.done.Wait()

				assert.Empty(t, f.between(first, first+pauses[0]))
				assert.Len(t, f.between(first+pauses[0], second), max(0, 6*int((gap-pauses[0])/(500*time.Millisecond))))
				assert.Empty(t, f.between(second, second+pauses[1]))
				end := max(first+pauses[0], second+pauses[1])
				after := f.between(end, time.Hour)
				require.NotEmpty(t, after)
				for i, c := range after {
					assert.InDelta(t, end+time.Duration(i)*100*time.Millisecond, c.at, float64(2*time.Millisecond))
				}
				f.inOrder(t)
			})
		})
	}
}

func TestResumeEndsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		processes := fleet(newHearingBubble(t), 3, reserve.PerSecond(10))
		require.NoError(t, processes[0].Resume(t.Context()), "there is none")
		var f fleetCalls
		f.wait(t, processes, 20)
		time.Sleep(1050 * time.Millisecond)
		require.NoError(t, processes[0].Pause(t.Context(), time.Hour, "too long"))
		time.Sleep(10 * time.Minute)
		require.NoError(t, processes[1].Resume(t.Context()))
		resumed := time.Since(f.start)
		f.done.Wait()
		after := f.between(resumed, time.Hour)
		require.Len(t, after, 60-11)
		for i, c := range after {
			assert.InDelta(t, resumed+time.Duration(i)*100*time.Millisecond, c.at, float64(2*time.Millisecond))
		}
		f.inOrder(t)
	})
}

// A process that does not hear of the pause makes those calls early whose turns were
// fixed, which its inline bound limits, and no others.
func TestPauseUnheard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		processes := fleet(newHearingBubble(t), 2, reserve.PerSecond(10))
		processes[0].TurnDeaf()
		var f fleetCalls
		f.wait(t, processes, 4) // all are fixed, so that it has nothing to ask
		time.Sleep(50 * time.Millisecond)
		require.NoError(t, processes[1].Pause(t.Context(), 5*time.Second, ""))
		paused := time.Since(f.start)
		f.done.Wait()
		early := f.between(paused, paused+5*time.Second)
		for _, c := range early {
			assert.Zero(t, c.process)
			assert.LessOrEqual(t, c.at, paused+reserve.DefaultInlineBound)
		}
		assert.Len(t, early, 3)
		assert.Len(t, f.calls, 8)
		f.inOrder(t)
	})
}

// Under Strict no turn is fixed before it has come: nobody has to hear of a pause.
func TestPauseOfAStrictLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHearingBubble(t)
		var processes []*reserve.Limiter
		for range 2 {
			l, err := reserve.New(b.client(), reserve.Config{Name: "api", Limit: reserve.PerSecond(10), InlineBound: reserve.Strict})
			require.NoError(t, err)
			t.Cleanup(func() { _ = l.Close() })
			l.TurnDeaf()
			processes = append(processes, l)
		}
		var f fleetCalls
		f.wait(t, processes, 30)
		time.Sleep(1050 * time.Millisecond)
		require.NoError(t, processes[1].Pause(t.Context(), 5*time.Second, ""))
		paused := time.Since(f.start)
		f.done.Wait()
		assert.Empty(t, f.between(paused, paused+5*time.Second))
		assert.Len(t, f.calls, 60)
	})
}

// What was said while the process did not listen yet is looked up when it does.
func TestPauseBeforeTheProcessListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHearingBubble(t)
		l, other := b.limiter(reserve.PerSecond(10)), b.limiter(reserve.PerSecond(10))
		require.NoError(t, l.Wait(t.Context()))
		r, err := l.Reserve(t.Context()) // nobody waits for it, so nobody listens
		require.NoError(t, err)
		require.True(t, r.Final())
		require.NoError(t, other.Pause(t.Context(), 5*time.Second, ""))
		start := time.Now()
		require.NoError(t, r.Wait(t.Context()))
		assert.InDelta(t, 5*time.Second, time.Since(start), float64(10*time.Millisecond))
	})
}

func TestPauseOfALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHearingBubble(t)
		l, err := reserve.New(b.client(), reserve.Config{Name: "api", Limit: reserve.PerSecond(100).Burst(100), Lease: 500 * time.Millisecond})
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		other := b.limiter(reserve.PerSecond(100).Burst(100))
		for range 50 {
			require.NoError(t, l.Wait(t.Context()))
			time.Sleep(20 * time.Millisecond)
		}
		held := l.LeaseStats()
		require.Positive(t, held.Taken-held.Used-held.Returned-held.Lapsed, "else this shows nothing")
		go func() { _ = l.WaitN(t.Context(), 100) }() // it waits, so the process listens
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, other.Pause(t.Context(), 5*time.Second, ""))
		synctest.Wait()
		allowed, err := l.Allow(t.Context())
		require.NoError(t, err)
		assert.False(t, allowed)
		after := l.LeaseStats()
		assert.Equal(t, after.Taken, after.Used+after.Returned+after.Lapsed)
	})
}

func TestPauseIsCutToTheLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := reserve.New(newBubble(t).client(), reserve.Config{Name: "api", Limit: reserve.PerSecond(10), MaxPause: time.Minute})
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		require.NoError(t, l.PauseUntil(t.Context(), time.Now().Add(24*time.Hour), "Retry-After: 86400"))
		state, err := l.State(t.Context())
		require.NoError(t, err)
		assert.InDelta(t, time.Minute, state.Paused, float64(time.Second))
	})
}

func TestPauseOfNoTimeAndWrongOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.PerSecond(10))
		require.NoError(t, l.Pause(t.Context(), 0, ""))
		require.NoError(t, l.Pause(t.Context(), -time.Second, ""))
		require.NoError(t, l.PauseUntil(t.Context(), time.Now().Add(-time.Hour), "an old header"))
		assert.Empty(t, b.redis.Keys())
		require.ErrorContains(t, l.For("").Pause(t.Context(), time.Second, ""), "key")
		require.ErrorContains(t, l.For("").Resume(t.Context()), "key")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, l.Pause(ended, time.Second, ""), context.Canceled)
		assert.Empty(t, b.redis.Keys())
		_, err := reserve.New(b.client(), reserve.Config{Name: "api", Limit: reserve.PerSecond(1), MaxPause: -1})
		require.ErrorContains(t, err, "Config.MaxPause: must be 0, for none, or above, got -1ns")
		require.NoError(t, l.Close())
		require.ErrorIs(t, l.Pause(t.Context(), time.Second, ""), reserve.ErrClosed)
	})
}

func TestPauseForALongReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newBubble(t).limiter(reserve.PerSecond(10))
		for i, test := range []struct{ reason, want string }{
			{strings.Repeat("x", 256), strings.Repeat("x", 256)},
			{strings.Repeat("x", 300), strings.Repeat("x", 256)},
			{strings.Repeat("ä", 200), strings.Repeat("ä", 128)},
			{"x" + strings.Repeat("ä", 200), "x" + strings.Repeat("ä", 127)},
			{"not\xff text", "not? text"},
		} {
			require.NoError(t, l.Pause(t.Context(), time.Duration(i+1)*time.Second, test.reason))
			state, err := l.State(t.Context())
			require.NoError(t, err)
			assert.Equal(t, test.want, state.PauseReason)
		}
	})
}

// Keys have pauses of their own.
func TestPauseOfOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newBubble(t).limiter(reserve.PerSecond(10))
		require.NoError(t, l.For("a").Pause(t.Context(), time.Second, ""))
		for key, want := range map[string]bool{"a": false, "b": true} {
			allowed, err := l.For(key).Allow(t.Context())
			require.NoError(t, err)
			assert.Equal(t, want, allowed, key)
		}
	})
}

// While Redis is away a process that is told to pause does so by itself.
func TestPauseWhileRedisIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.PerSecond(10))
		require.NoError(t, l.Wait(t.Context()))
		b.redis.SetError("LOADING Redis is away")
		for range 5 { // until the breaker opens
			require.NoError(t, l.Wait(t.Context()))
		}
		err := l.Pause(t.Context(), 5*time.Second, "")
		require.ErrorIs(t, err, reserve.ErrUnavailable)
		start := time.Now()
		require.NoError(t, l.Wait(t.Context()))
		assert.InDelta(t, 5*time.Second, time.Since(start), float64(300*time.Millisecond))
	})
}

// A pause goes on when data was lost: those who remember the line remember it, too.
func TestPauseOutlivesTheData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHearingBubble(t)
		processes := fleet(b, 2, reserve.PerSecond(10))
		var f fleetCalls
		f.wait(t, processes, 20)
		time.Sleep(1050 * time.Millisecond)
		require.NoError(t, processes[0].Pause(t.Context(), 5*time.Second, ""))
		paused := time.Since(f.start)
		time.Sleep(time.Second)
		b.redis.FlushAll()
		allowed, err := processes[1].Allow(t.Context())
		require.NoError(t, err)
		assert.False(t, allowed)
		f.done.Wait()
		assert.Empty(t, f.between(paused, paused+5*time.Second-20*time.Millisecond))
		assert.Len(t, f.calls, 40)
		assert.True(t, slices.IsSortedFunc(f.calls, func(a, b fleetCall) int { return int(a.at - b.at) }))
	})
}

func TestPauseOfACorruptLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.PerSecond(10))
		require.NoError(t, l.Wait(t.Context()))
		require.NoError(t, b.admin().HSet(t.Context(), "fleetpace:{api}:line", "pauseMicros", "soon").Err())
		err := l.Pause(t.Context(), time.Second, "")
		require.ErrorIs(t, err, reserve.ErrCorrupt)
		require.ErrorContains(t, err, `pauseMicros must be a whole number, got "soon"`)
		var e *reserve.Error
		assert.True(t, errors.As(err, &e))
	})
}
