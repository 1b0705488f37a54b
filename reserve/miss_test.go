package reserve_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// A call whose turn comes after its deadline hears when the turn would come, and how much
// time was left: whoever reads only that it would be too late does not see that the
// deadline is shorter than the line.
func TestMissedDeadlineSaysBoth(t *testing.T) {
	for name, c := range map[string]struct {
		limit     reserve.Limit
		wait      time.Duration // of the second call
		away      bool
		joint     bool
		key, held string
	}{
		"paced":          {limit: reserve.Every(50 * time.Second), wait: 50 * time.Second, key: "api"},
		"without Redis":  {limit: reserve.Every(5 * time.Second), wait: 50 * time.Second, key: "api", away: true},
		"rolling":        {limit: reserve.Rolling(1, 50*time.Second), wait: 50 * time.Second, key: "api", held: `, held back by "api"`},
		"several limits": {limit: reserve.Every(50 * time.Second), wait: 50 * time.Second, joint: true, key: "api + api/k", held: `, held back by "api"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newHearingBubble(t)
				l := b.limiter(c.limit)
				wait := l.Wait
				if c.joint {
					both, err := reserve.All(l, l.For("k"))
					require.NoError(t, err)
					wait = func(ctx context.Context) error { return both.Wait(ctx) }
				}
				if c.away {
					b.redis.SetError(loading)
				}
				require.NoError(t, wait(t.Context()))
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				at := time.Now()
				err := wait(ctx)
				require.Zero(t, time.Since(at), "at once")
				require.ErrorIs(t, err, reserve.ErrWouldMissDeadline)
				var failed *reserve.Error
				require.ErrorAs(t, err, &failed)
				require.InDelta(t, c.wait, failed.Wait, float64(10*time.Millisecond))
				require.Equal(t, 30*time.Second, failed.Left)
				require.EqualError(t, err, fmt.Sprintf("reserve: wait %q: would miss the deadline%s: the turn is in %v, the deadline in 30s",
					c.key, c.held, failed.Wait.Round(time.Millisecond)))
			})
		})
	}
}

// The deadlines of calls that line up together are their own.
func TestMissedDeadlinesOfALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newHearingBubble(t).limiter(reserve.Every(10 * time.Second))
		now := time.Now()
		placed := l.LineUp(t.Context(), []reserve.Request{
			{ID: "a", N: 1}, {ID: "b", N: 1}, {ID: "c", N: 1, Deadline: now.Add(15 * time.Second)}, {ID: "d", N: 1, Deadline: now.Add(-time.Second)},
		})
		require.NoError(t, placed[1].Err)
		require.ErrorContains(t, placed[2].Err, "the turn is in 20s, the deadline in 15s")
		require.ErrorContains(t, placed[3].Err, "the turn is in 20s, the deadline in 0s")
	})
}
