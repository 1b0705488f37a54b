package reserve_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

func enter(t *testing.T, l *reserve.Limiter, id string) *reserve.Reservation {
	t.Helper()
	r, err := l.Enter(t.Context(), id, 1)
	require.NoError(t, err)
	return r
}

// A newcomer gets the end of the line, and who comes again keeps its number.
func TestEnterKeepsTheNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, other := b.limiter(reserve.PerSecond(1)), b.limiter(reserve.PerSecond(1))
		time.Sleep(time.Second)
		require.Equal(t, int64(1), enter(t, l, "now").Number())
		for i := range 10 {
			r := enter(t, l, fmt.Sprint(i))
			require.Equal(t, int64(i+2), r.Number())
			require.Equal(t, time.Duration(i+1)*time.Second, r.Delay())
			require.False(t, r.Final(), "nobody's turn is fixed when it is far")
		}
		require.Equal(t, int64(11), enter(t, other, "9").Number(), "also in another process")
		for i := range 10 {
			id, number := fmt.Sprint(i), int64(i+2)
			if i > 0 { // a second early, and a second before somebody else's turn
				require.Equal(t, number, enter(t, other, fmt.Sprint(i)).Number())
			}
			// A quarter of the bound before its turn it is fixed.
			time.Sleep(700 * time.Millisecond)
			require.False(t, enter(t, l, id).Final())
			time.Sleep(50 * time.Millisecond)
			r := enter(t, l, id)
			require.True(t, r.Final())
			require.Equal(t, number, r.Number())
			time.Sleep(250 * time.Millisecond)
		}
	})
}

// Who is awake gets the turn of somebody who did not come: who waits in the
// process, or else a newcomer. The one that comes too late has that one's number.
func TestEnterUsesTurnsThatNobodyCameFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, other := b.limiter(reserve.PerSecond(1)), b.limiter(reserve.PerSecond(1))
		time.Sleep(time.Second)
		require.NoError(t, l.Wait(t.Context()))
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			enter(t, l, id)
		}
		time.Sleep(700 * time.Millisecond) // 300 ms before the turn of a
		early := enter(t, l, "early")
		require.Equal(t, int64(7), early.Number(), "a may still come")
		require.False(t, early.Final())

		time.Sleep(50 * time.Millisecond)
		require.Equal(t, int64(8), enter(t, b.limiter(reserve.PerSecond(1)), "new").Number(), "its process has just started")
		newcomer := enter(t, l, "newcomer")
		require.True(t, newcomer.Final())
		require.Equal(t, int64(2), newcomer.Number(), "that of a")
		require.Equal(t, 250*time.Millisecond, newcomer.Delay())

		// a comes late. Nobody else's turn is near enough to be left lying, but a is to
		// claim the next one when it is, rather than to wait for the number of the newcomer.
		a := enter(t, l, "a")
		require.Equal(t, int64(3), a.Number(), "that of b, who has it as well until then")
		require.False(t, a.Final())

		// Somebody waits in the process: newcomers take nothing, the waiting call
		// takes the turn of b, and b has its number.
		c := enter(t, other, "c")
		var waited sync.WaitGroup
		waited.Go(func() { require.NoError(t, c.Wait(t.Context())) })
		time.Sleep(time.Second) // 250 ms before b's turn
		require.Equal(t, int64(10), enter(t, other, "late").Number())
		waited.Wait()
		require.Equal(t, int64(3), c.Number(), "that of b")
		require.Equal(t, int64(4), enter(t, l, "b").Number(), "that of c")
	})
}

func TestEnterRefusesBadInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.enduring(reserve.PerSecond(1), reserve.PolicyFail)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := l.Enter(ended, "id", 1)
		require.ErrorIs(t, err, context.Canceled)
		b.redis.SetError("LOADING Redis is loading the dataset in memory")
		_, err = l.Enter(t.Context(), "id", 1)
		require.ErrorIs(t, err, reserve.ErrUnavailable)
		b.redis.SetError("")
		require.NoError(t, l.Close())
		_, err = l.Enter(t.Context(), "id", 1)
		require.ErrorIs(t, err, reserve.ErrClosed)
	})
}

// patience is what most calls of these tests enter with.
const patience = 2 * time.Second

// More come than the limit lets pass, for minutes. Those whose turn is far leave
// and come back in time; newcomers do not overtake them, and they not each other.
func TestNewcomersDoNotOvertake(t *testing.T) {
	inParallel(t)
	t.Run("back a second before", func(t *testing.T) { testNewcomers(t, 800*time.Millisecond, patience) })
	t.Run("back 7 s before", func(t *testing.T) { testNewcomers(t, 7*time.Second, 9*time.Second) })
}

// testNewcomers has calls come back early or up to a second earlier.
func testNewcomers(t *testing.T, early, patience time.Duration) {
	const rate, processes = 10, 4
	length := 2 * time.Minute
	if !long || raceDetector {
		length = 40 * time.Second
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		api := provider.New(provider.TokenBucket(rate, 1))
		var limiters []*reserve.Limiter
		for range processes {
			limiters = append(limiters, b.limiter(reserve.PerSecond(rate)))
		}
		ctx := t.Context()
		var mu sync.Mutex
		var order []int // of calls, by arrival
		entered := 0
		var all sync.WaitGroup
		many := int(1.5 * rate * length.Seconds())
		for i := range many {
			random := rand.New(rand.NewPCG(11, uint64(i)))
			all.Go(func() {
				for {
					l := limiters[random.IntN(processes)]
					r, err := l.Enter(ctx, fmt.Sprint("job-", i), 1)
					require.NoError(t, err)
					mu.Lock()
					entered++
					mu.Unlock()
					ahead := early + time.Duration(random.IntN(1000))*time.Millisecond
					if r.Delay() <= patience {
						require.NoError(t, r.Wait(ctx))
						break
					}
					time.Sleep((r.Delay() - ahead).Truncate(time.Millisecond))
				}
				mu.Lock()
				defer mu.Unlock()
				api.Judge(1)
				order = append(order, i)
			})
			time.Sleep(66 * time.Millisecond)
		}
		all.Wait()
		worst, moved := 0, 0
		for place, i := range order {
			worst = max(worst, place-i, i-place)
			if place != i {
				moved++
			}
		}
		s := api.Summary()
		t.Logf("%d calls, %d refused, utilization %.4f, entered %.2f times each, %d not in their own place, at most %d places off",
			s.Requests, s.Refused, s.Utilization(rate, 1), float64(entered)/float64(many), moved, worst)
		require.Equal(t, many, s.Requests)
		require.Zero(t, s.Refused)
		require.GreaterOrEqual(t, s.Utilization(rate, 1), 0.99)
		require.LessOrEqual(t, worst, rate, "a second")
	})
}
