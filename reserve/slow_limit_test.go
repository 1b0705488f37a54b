package reserve_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

var slowLimits = []reserve.Limit{reserve.Every(10 * time.Second), reserve.PerMinute(1), reserve.PerHour(1)}

// everyLate runs a test for each slow limit and each delay of one reply.
func everyLate(t *testing.T, limits []reserve.Limit, delays []time.Duration, test func(t *testing.T, limit reserve.Limit, delay time.Duration)) {
	t.Helper()
	for _, limit := range limits {
		for _, delay := range delays {
			t.Run(fmt.Sprint(limit, " ", delay), func(t *testing.T) {
				inParallel(t)
				synctest.Test(t, func(t *testing.T) { test(t, limit, delay) })
			})
		}
	}
}

var replyDelays = []time.Duration{25 * time.Millisecond, 40 * time.Millisecond, 150 * time.Millisecond}

// A reply that is late costs a slow limit no turn: nobody came later, so the line goes
// back to the turn that was slept through.
func TestLateReplyOfASlowLimit(t *testing.T) {
	everyLate(t, slowLimits, replyDelays, func(t *testing.T, limit reserve.Limit, delay time.Duration) {
		l, wire := newBubble(t).wired(t, limit)
		require.NoError(t, l.Wait(t.Context())) // from here on it knows the way to Redis

		begin := time.Now()
		wire.delayOnce(delay)
		require.NoError(t, l.For("waits").Wait(t.Context()))
		require.Less(t, time.Since(begin), 2*time.Second)

		begin = time.Now()
		wire.delayOnce(delay)
		allowed, err := l.For("asks").Allow(t.Context())
		require.NoError(t, err)
		require.True(t, allowed)
		require.Less(t, time.Since(begin), 2*time.Second)
	})
}

// The same where others wait behind: nobody loses a turn, and nobody goes to the end of
// the line. Replies are late to the first call and whenever a turn is claimed, by up to
// much more than turns are claimed ahead.
func TestLateRepliesOfASlowLimitWithAQueue(t *testing.T) {
	delays := []time.Duration{25 * time.Millisecond, 150 * time.Millisecond, 2250 * time.Millisecond}
	limits := slowLimits
	if raceDetector { // a wait of hours asks often
		limits = slowLimits[:2]
	}
	everyLate(t, limits, delays, func(t *testing.T, limit reserve.Limit, delay time.Duration) {
		const behind = 20
		b := newBubble(t)
		const grains = 1_000_000 // of a call; the API bears the 20 ms by which turns may be late
		bears := int(grains * 0.02 / limit.Interval().Seconds())
		api := provider.New(provider.TokenBucket(grains/limit.Interval().Seconds(), grains+bears+1))
		l, wire := b.wired(t, limit)
		other := b.limiter(limit)
		require.NoError(t, l.Wait(t.Context()))
		require.NoError(t, other.Wait(t.Context()))
		l, other = l.For("key"), other.For("key")

		begin := time.Now()
		var order []int
		var mu sync.Mutex
		var calls sync.WaitGroup
		call := func(i int, l *reserve.Limiter) {
			calls.Go(func() {
				require.NoError(t, l.Wait(context.Background()))
				mu.Lock()
				defer mu.Unlock()
				api.Judge(grains)
				order = append(order, i)
			})
			time.Sleep(time.Microsecond)
		}
		wire.delayOnce(delay)
		call(0, l)
		for i := 1; i <= behind; i++ {
			call(i, []*reserve.Limiter{l, other}[i%2])
		}
		stop := wire.delayOneOf(4, delay)
		calls.Wait()
		stop()

		require.Len(t, order, behind+1)
		if delay < time.Second { // else the other process is awake meanwhile, and has the turn
			require.Zero(t, order[0], "who was first")
		}
		require.Zero(t, api.Summary().Refused)
		// Each late claim may make its own turn late, and nothing else is lost.
		require.LessOrEqual(t, time.Since(begin), behind*limit.Interval()+time.Duration(behind)*(delay+time.Second))
	})
}
