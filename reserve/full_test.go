package reserve_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// The whole fleet may have so many waiting calls, of each key. A call beyond that fails at once, and says when
// its turn would have come.
func TestAFullQueueRefusesCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		fleet := make([]*reserve.Limiter, 3)
		for i := range fleet {
			fleet[i] = b.with(reserve.Config{Limit: reserve.PerSecond(1).Burst(2), MaxWaiting: 6})
		}
		var busy sync.WaitGroup
		var turns, full atomic.Int64
		begun := time.Now()
		for i := range 30 {
			busy.Go(func() {
				switch err := fleet[i%3].Wait(t.Context()); {
				case err == nil:
					turns.Add(1)
				default:
					full.Add(1)
					assert.ErrorIs(t, err, reserve.ErrQueueFull)
					assert.Less(t, time.Since(begun), 50*time.Millisecond)
					var e *reserve.Error
					if assert.ErrorAs(t, err, &e) {
						assert.InDelta(t, 7*time.Second, e.Wait, float64(1100*time.Millisecond))
					}
					assert.ErrorContains(t, err, `wait "api": the queue is full: 6 calls of the fleet wait at "api", as many as Config.MaxWaiting allows: the turn is in `)
				}
			})
		}
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		assert.EqualValues(t, 2, turns.Load())
		assert.EqualValues(t, 22, full.Load())
		assert.EqualValues(t, 6, state(t, fleet[0]).Waiting)
		require.NoError(t, fleet[1].For("other").Wait(t.Context()), "keys have queues of their own")
		ok, err := fleet[1].Allow(t.Context())
		assert.NoError(t, err)
		assert.False(t, ok)
		busy.Wait()
		assert.EqualValues(t, 8, turns.Load())
		assert.InDelta(t, 6*time.Second, time.Since(begun), float64(50*time.Millisecond))
		require.NoError(t, fleet[2].Wait(t.Context()))
	})
}

// Callers whose queue is full try again after 10 ms. All of the limit is used, and their process answers most
// of them by itself.
func TestStormOfCallsAtAFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		ctx, cancel := context.WithCancel(t.Context())
		var busy sync.WaitGroup
		var turns, full atomic.Int64
		for range 3 {
			l := b.with(reserve.Config{Limit: reserve.PerSecond(5), MaxWaiting: 4})
			for range 12 {
				busy.Go(func() {
					for ctx.Err() == nil {
						if l.Wait(ctx) == nil {
							turns.Add(1)
							continue
						}
						full.Add(1)
						time.Sleep(10 * time.Millisecond)
					}
				})
			}
		}
		time.Sleep(2100 * time.Millisecond)
		used, refused, asked := turns.Load(), full.Load(), b.asks.Load()
		time.Sleep(20 * time.Second)
		used, refused, asked = turns.Load()-used, full.Load()-refused, b.asks.Load()-asked
		cancel()
		busy.Wait()
		t.Logf("%d turns, %d refused, %d commands", used, refused, asked)
		assert.InDelta(t, 100, used, 1)
		assert.Greater(t, refused, int64(30_000))
		assert.Less(t, asked, refused/10)
	})
}

// Bookings count as well. A call that was booked comes back to a full queue, and has its place.
func TestAFullQueueOfBookings(t *testing.T) {
	each(t, func(t *testing.T, b *bubble, k kind) {
		l := b.with(reserve.Config{Limit: k.limit, MaxWaiting: 8})
		j := joint(t, l)
		var calls []reserve.Call
		for i := range 12 {
			calls = append(calls, reserve.Call{ID: fmt.Sprint(i)})
		}
		joined := j.Book(t.Context(), calls)
		for i := range joined {
			if i < 8 {
				assert.NoError(t, joined[i].Err)
			} else {
				assert.ErrorIs(t, joined[i].Err, reserve.ErrQueueFull)
			}
		}
		r, err := j.Ask(t.Context(), "3", time.Hour)
		require.NoError(t, err)
		again := j.Book(t.Context(), calls[:8])
		for i := range again {
			assert.NoError(t, again[i].Err, "call %d is booked already", i)
		}
		require.NoError(t, r.Cancel(t.Context()))
	})
}

// A call of several limits fails where it would wait: at the limit that holds it back most.
func TestAFullQueueOfSeveralLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		client := b.client()
		account := b.on(client, reserve.Config{Name: "account", Group: "g", Limit: reserve.PerSecond(100), MaxWaiting: 1000})
		tenant := b.on(client, reserve.Config{Name: "tenant", Group: "g", Limit: reserve.PerSecond(1), MaxWaiting: 2})
		var full atomic.Int64
		var busy sync.WaitGroup
		for range 6 {
			busy.Go(func() {
				if err := joint(t, account, tenant).Wait(t.Context()); err != nil {
					full.Add(1)
					assert.ErrorContains(t, err, `2 calls of the fleet wait at "tenant"`)
				}
			})
		}
		synctest.Wait()
		busy.Wait()
		assert.EqualValues(t, 3, full.Load(), "one is made at once, and two wait")
	})
}

func TestMaxWaitingIsChecked(t *testing.T) {
	_, err := reserve.New(newBubble(t).client(), reserve.Config{Name: "api", Limit: reserve.PerSecond(1), MaxWaiting: -1})
	require.ErrorIs(t, err, reserve.ErrInvalid)
	assert.ErrorContains(t, err, "Config.MaxWaiting: must be 0, for any number, or above, got -1")
}
