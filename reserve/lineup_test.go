package reserve_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

// jobs are requests of one permit each, under the IDs prefix-0, prefix-1 …
func jobs(prefix string, n int) []reserve.Request {
	requests := make([]reserve.Request, n)
	for i := range requests {
		requests[i] = reserve.Request{ID: fmt.Sprint(prefix, "-", i), N: 1}
	}
	return requests
}

// Numbers come in the order of the requests, also when one round trip does not
// hold them all, and an ID that has one keeps it.
func TestLineUpKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, wire := b.wired(t, reserve.PerSecond(10).Burst(10))
		before := l.LineUp(t.Context(), jobs("before", 1))[0]
		require.NoError(t, before.Err)
		wire.scripts.Store(0)
		requests := jobs("job", 600)
		requests[300].ID = "before-0"
		placed := l.LineUp(t.Context(), requests)
		require.Len(t, placed, 600)
		require.Equal(t, int64(3), wire.scripts.Load())
		next := before.Number() + 1
		for i, p := range placed {
			require.NoError(t, p.Err)
			require.Equal(t, requests[i].ID, p.ID())
			require.False(t, p.Final(), "also where a permit is stored")
			if i == 300 {
				require.Equal(t, before.Number(), p.Number())
				continue
			}
			require.Equal(t, next, p.Number())
			next++
		}
		again := l.LineUp(t.Context(), requests)
		for i, p := range again {
			require.NoError(t, p.Err)
			require.Equal(t, placed[i].Number(), p.Number())
		}
		require.Zero(t, placed[8].Delay())
		require.InDelta(t, 59*time.Second, placed[599].Delay(), float64(time.Millisecond))
	})
}

// A request that can not be served has an error of its own, costs nothing, and
// does not disturb the others.
func TestLineUpJudgesEachRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.PerSecond(1).Burst(2))
		ctx := t.Context()
		soon := time.Now().Add(3 * time.Second)
		placed := l.LineUp(ctx, []reserve.Request{
			{ID: "a", N: 2},
			{ID: "", N: 1},
			{ID: strings.Repeat("i", 257), N: 1},
			{ID: "none", N: 0},
			{ID: "large", N: 3},
			{ID: "b", N: 2, Deadline: soon},
			{ID: "late", N: 2, Deadline: soon},
			{ID: "c", N: 1, Deadline: soon},
			{ID: "d", N: 1},
		})
		for i, want := range []error{1: reserve.ErrInvalid, 2: reserve.ErrInvalid, 3: reserve.ErrInvalid,
			4: reserve.ErrExceedsBurst, 6: reserve.ErrWouldMissDeadline, 8: nil} {
			require.Equal(t, want == nil, placed[i].Reservation != nil, i)
			if want == nil {
				require.NoError(t, placed[i].Err)
				continue
			}
			require.ErrorIs(t, placed[i].Err, want)
			var typed *reserve.Error
			require.ErrorAs(t, placed[i].Err, &typed)
			require.Equal(t, "line up", typed.Op)
		}
		var late *reserve.Error
		require.ErrorAs(t, placed[6].Err, &late)
		require.Equal(t, 4*time.Second, late.Wait)
		require.Equal(t, []int64{2, 4, 5, 6},
			[]int64{placed[0].Number(), placed[5].Number(), placed[7].Number(), placed[8].Number()}, "nothing was consumed")

		ended, cancel := context.WithCancel(ctx)
		cancel()
		for _, p := range l.LineUp(ended, jobs("ended", 300)) {
			require.ErrorIs(t, p.Err, context.Canceled)
		}
		require.ErrorIs(t, l.For("").LineUp(ctx, jobs("key", 1))[0].Err, reserve.ErrInvalid)
		require.Empty(t, l.LineUp(ctx, nil))
		s, err := l.State(ctx)
		require.NoError(t, err)
		require.Equal(t, int64(4), s.Waiting)

		require.NoError(t, l.Close())
		closed := l.LineUp(ctx, []reserve.Request{{ID: "x", N: 1}, {ID: "x", N: 0}})
		require.ErrorIs(t, closed[0].Err, reserve.ErrClosed)
		require.ErrorIs(t, closed[1].Err, reserve.ErrInvalid)
	})
}

// Where a round trip fails, those behind it are not served before those in it.
func TestLineUpStopsWhereRedisIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, wire := b.wired(t, reserve.PerSecond(0.1)) // so slow that nothing lapses meanwhile
		ctx := t.Context()
		require.NoError(t, l.LineUp(ctx, jobs("first", 1))[0].Err)
		wire.fail.Store(10)
		failed := l.LineUp(ctx, jobs("job", 600))
		for _, p := range failed {
			require.ErrorIs(t, p.Err, reserve.ErrUnavailable)
		}
		wire.fail.Store(0)
		time.Sleep(time.Second)
		number := int64(1)
		for _, p := range l.LineUp(ctx, jobs("job", 600)) {
			number++
			require.NoError(t, p.Err)
			require.Equal(t, number, p.Number())
		}
	})
}

// Nobody comes for those who were lined up, until long after their turns: the
// line waited, and they run at the paced rate.
func TestALineThatNobodyCameForIsPaced(t *testing.T) {
	const rate, many = 10, 100
	for _, burst := range []int{1, 10} {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t)
			limit := reserve.PerSecond(rate).Burst(burst)
			api := provider.New(provider.TokenBucket(rate, 1))
			l := b.limiter(limit)
			ctx := t.Context()
			for _, p := range l.LineUp(ctx, jobs("job", many)) {
				require.NoError(t, p.Err)
			}
			time.Sleep(many * time.Second / rate) // their turns passed; the keys still live
			worker := b.limiter(limit)
			start := time.Now()
			done := make(chan struct{})
			for i := range many {
				go func() {
					defer func() { done <- struct{}{} }()
					for {
						r, err := worker.Enter(ctx, fmt.Sprint("job-", i), 1)
						require.NoError(t, err)
						if r.Delay() <= 2*worker.Lead() {
							require.NoError(t, r.Wait(ctx))
							ok, _ := api.Judge(1)
							require.True(t, ok)
							return
						}
						time.Sleep((r.Delay() - worker.Lead()).Truncate(time.Millisecond))
					}
				}()
			}
			for range many {
				<-done
			}
			s := api.Summary()
			t.Logf("burst %d: %d calls in %v, %d refused", burst, s.Requests, time.Since(start), s.Refused)
			require.Zero(t, s.Refused, "by a provider that allows no burst")
			require.InDelta(t, (many-1)*time.Second/rate, time.Since(start), float64(time.Second/rate))
		})
	}
}
