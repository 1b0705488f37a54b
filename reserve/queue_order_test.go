package reserve_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

// Calls of one process have their turns in the order in which they came, also
// when some before them give up: those behind move up by one interval each.
func TestFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.PerSecond(1))
		require.NoError(t, l.Wait(t.Context()))
		start := time.Now()

		var mu sync.Mutex
		var order []int
		var at []time.Duration
		var all sync.WaitGroup
		cancels := make([]context.CancelFunc, 10)
		for i := range 10 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cancels[i] = cancel
			all.Go(func() {
				if l.Wait(ctx) != nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
				at = append(at, time.Since(start).Round(time.Millisecond))
			})
			synctest.Wait()
		}
		time.Sleep(2500 * time.Millisecond) // 0 and 1 had their turns
		cancels[2]()
		cancels[5]()
		all.Wait()
		require.Equal(t, []int{0, 1, 3, 4, 6, 7, 8, 9}, order)
		for i, d := range at {
			require.Equal(t, time.Duration(i+1)*time.Second, d)
		}
	})
}

// A process that died holds nobody up: its numbers go to those who are awake.
func TestDeadProcessCostsNoCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		dead, alive := b.limiter(reserve.PerSecond(1)), b.limiter(reserve.PerSecond(1))
		require.NoError(t, alive.Wait(t.Context()))
		start := time.Now()
		for range 10 { // numbers that nobody will ever claim
			_, err := dead.Reserve(t.Context())
			require.NoError(t, err)
		}
		var at []time.Duration
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				require.NoError(t, alive.Wait(t.Context()))
				mu.Lock()
				defer mu.Unlock()
				at = append(at, time.Since(start).Round(time.Millisecond))
			})
			synctest.Wait()
		}
		all.Wait()
		t.Logf("turns at %v", at)
		slices.Sort(at)
		for i := 1; i < len(at); i++ {
			require.GreaterOrEqual(t, at[i]-at[i-1], time.Second)
		}
		require.LessOrEqual(t, at[0], 3*time.Second, "they look before their own turn")
		require.LessOrEqual(t, at[len(at)-1], 14*time.Second, "and then have turn after turn")
	})
}

// The same where the dead one's numbers stand between those of the living.
func TestDeadNumbersBetweenTheLiving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 50
		b := newBubble(t)
		limit := reserve.PerSecond(rate)
		dead, alive := b.limiter(limit), b.limiter(limit)
		api := provider.New(provider.TokenBucket(rate, 1))
		for range rate { // fixed turns, which nobody can take over
			_, err := dead.Reserve(t.Context())
			require.NoError(t, err)
		}
		var all sync.WaitGroup
		for range 300 {
			_, err := dead.Reserve(t.Context())
			require.NoError(t, err)
			all.Go(func() {
				require.NoError(t, alive.Wait(t.Context()))
				api.Judge(1)
			})
			synctest.Wait()
		}
		all.Wait()
		s := api.Summary()
		t.Logf("%d calls, %d refused, utilization %.4f", s.Requests, s.Refused, s.Utilization(rate, 1))
		require.Zero(t, s.Refused)
		require.GreaterOrEqual(t, s.Utilization(rate, 1), 0.98)
	})
}

// A short call never gets a turn past its deadline because of its place.
func TestDeadlineHoldsInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, other := b.limiter(reserve.PerSecond(1)), b.limiter(reserve.PerSecond(1))
		require.NoError(t, l.Wait(t.Context()))
		early, err := other.Reserve(t.Context())
		require.NoError(t, err)
		for range 10 {
			_, err := other.Reserve(t.Context())
			require.NoError(t, err)
		}
		patient := make(chan time.Time, 1)
		go func() {
			require.NoError(t, l.Wait(t.Context()))
			patient <- time.Now()
		}()
		synctest.Wait()
		// A near number becomes free; a call with little time takes it, and must
		// not be given the patient one's far number for it.
		require.NoError(t, early.Cancel(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		require.NoError(t, l.Wait(ctx))
		<-patient
	})
}
