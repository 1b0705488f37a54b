package reserve_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

// A call that leaves keeps its place, also when its turn was fixed: somebody who
// is awake may use that turn, and it has that one's number.
func TestLeaveKeepsThePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, other := b.limiter(reserve.PerSecond(1)), b.limiter(reserve.PerSecond(1))
		time.Sleep(time.Second)
		require.NoError(t, l.Wait(t.Context()))
		for _, id := range []string{"a", "b", "c"} {
			enter(t, l, id)
		}
		leave := func(id string, want bool) {
			t.Helper()
			stays, err := l.Leave(t.Context(), id, 1)
			require.NoError(t, err)
			require.Equal(t, want, stays)
		}
		leave("a", true) // it waits anyway
		time.Sleep(800 * time.Millisecond)
		a := enter(t, l, "a")
		require.True(t, a.Final())
		leave("a", true)
		leave("a", true)
		leave("nobody", false)

		c, err := other.Claim(t.Context(), "c", 1)
		require.NoError(t, err)
		require.True(t, c.Final())
		require.Equal(t, a.Number(), c.Number(), "somebody who is awake uses the turn")
		require.Equal(t, int64(3), enter(t, l, "a").Number(), "a may have the next one, before c's own")

		require.NoError(t, l.Close())
		leave("a", true)
	})
}

// All who have a fixed turn leave, nobody calls for a while, and they come back:
// nobody was let through meanwhile, so the line waited, and all are in order.
func TestAllLeaveAndComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		const calls = 5
		l := b.limiter(reserve.PerSecond(10))
		api := provider.New(provider.TokenBucket(10, 1))
		time.Sleep(time.Second)
		require.NoError(t, l.Wait(t.Context()))
		api.Judge(1)
		ids := strings.Split("abcde", "")
		for _, id := range ids {
			r, err := l.Claim(t.Context(), id, 1)
			require.NoError(t, err)
			require.True(t, r.Final())
		}
		for _, id := range ids {
			stays, err := l.Leave(t.Context(), id, 1)
			require.NoError(t, err)
			require.True(t, stays)
		}
		time.Sleep(1100 * time.Millisecond) // the keys expire later
		start := time.Now()
		for i, id := range ids {
			r, err := l.Claim(t.Context(), id, 1)
			require.NoError(t, err)
			require.Equal(t, int64(i+2), r.Number())
			require.NoError(t, r.Wait(t.Context()))
			ok, _ := api.Judge(1)
			require.True(t, ok)
		}
		require.Equal(t, (calls-1)*100*time.Millisecond, time.Since(start))
	})
}

func TestLeaveRefusesBadInput(t *testing.T) {
	l := newBubble(t).limiter(reserve.PerSecond(1).Burst(5))
	for _, bad := range []struct {
		id   string
		n    int
		says string
	}{
		{"", 1, "id"}, {strings.Repeat("i", 257), 1, "257"}, {"a", 0, "got 0"}, {"a", 6, "got 6"},
	} {
		_, err := l.Leave(context.Background(), bad.id, bad.n)
		require.ErrorIs(t, err, reserve.ErrInvalid)
		require.ErrorContains(t, err, "leave")
		require.ErrorContains(t, err, bad.says)
	}
}
