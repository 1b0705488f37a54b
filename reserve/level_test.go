package reserve_test

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// stored are limits of all kinds that store permits: ten each.
var stored = map[string]reserve.Limit{
	"paced":   reserve.PerHour(10).Burst(10),
	"quota":   reserve.Quota(10, reserve.CalendarDay),
	"rolling": reserve.Rolling(10, time.Hour),
}

// stores plays a test with each kind, one hour into a day.
func stores(t *testing.T, test func(t *testing.T, b *bubble, limit reserve.Limit)) {
	for name, limit := range stored {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Hour)
				test(t, newBubble(t), limit)
			})
		})
	}
}

// A refill makes all permits available at once. Waiting calls of all processes have their turns, in order.
func TestRefill(t *testing.T) {
	stores(t, func(t *testing.T, b *bubble, limit reserve.Limit) {
		one, two := b.limiter(limit), b.limiter(limit)
		for range 10 {
			require.NoError(t, one.Wait(t.Context()))
		}
		f := newLog()
		for i := range 15 {
			f.wait(t, 1, i, []*reserve.Limiter{one, two}[i%2].Wait)
			time.Sleep(10 * time.Millisecond)
		}
		require.Zero(t, len(f.between(0, time.Hour)))
		require.NoError(t, two.Refill(t.Context()))
		time.Sleep(500 * time.Millisecond)
		assert.Equal(t, 10, len(f.between(0, time.Hour)))
		require.NoError(t, one.For("other").Refill(t.Context()), "a limit that nobody has used")
		require.NoError(t, one.Refill(t.Context()))
		for i, c := range f.all() {
			assert.Equal(t, i < 10, c.who < 10, "call %d has turn %d", c.who, i)
		}
		assert.InDelta(t, 5, state(t, two).Stored, 0.1)
	})
}

// Slots come back when calls end, and a pause goes on after a refill.
func TestRefillsThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		err := b.limiter(reserve.Concurrent(2)).Refill(t.Context())
		require.ErrorIs(t, err, reserve.ErrInvalid)
		assert.ErrorContains(t, err, `refill "api": invalid limit: must not be slots`)
		err = b.with(reserve.Config{Name: "slots", Limit: reserve.Concurrent(2)}).Told(t.Context(), 1)
		require.ErrorIs(t, err, reserve.ErrInvalid)

		l := b.with(reserve.Config{Name: "paused", Limit: reserve.PerHour(10).Burst(10)})
		require.NoError(t, l.Pause(t.Context(), time.Minute, ""))
		require.NoError(t, l.Refill(t.Context()))
		assert.False(t, allowed(t, l, 1))
		time.Sleep(time.Minute)
		assert.True(t, allowed(t, l, 10))
		warm := b.with(reserve.Config{Name: "warm", Limit: reserve.PerMinute(1).WarmUp(time.Hour)})
		require.True(t, allowed(t, warm, 1))
		require.False(t, allowed(t, warm, 1))
		require.NoError(t, warm.Refill(t.Context()))
		assert.True(t, allowed(t, warm, 1))
	})
}

// Another program uses the same account, and the API says what is left. The provider refuses nothing after
// it has said so, and the limit rises again when the provider has had more for a minute.
func TestToldWhatIsLeft(t *testing.T) {
	stores(t, func(t *testing.T, b *bubble, limit reserve.Limit) {
		one, two := b.limiter(limit), b.limiter(limit)
		require.True(t, allowed(t, one, 1))
		require.NoError(t, one.Told(t.Context(), 4))
		assert.InDelta(t, 4, state(t, two).Stored, 0.1)
		asked := b.asks.Load()
		for _, nothing := range []float64{4, 5, -1, math.NaN(), math.Inf(1)} {
			require.NoError(t, one.Told(t.Context(), nothing))
		}
		assert.LessOrEqual(t, b.asks.Load()-asked, int64(1), "a heartbeat, perhaps")
		require.False(t, allowed(t, two, 5))
		require.True(t, allowed(t, two, 4))
		require.NoError(t, one.Told(t.Context(), 0))
		assert.False(t, allowed(t, two, 1))

		for range 12 { // it has filled up again, which Redis does not know
			require.NoError(t, one.Told(t.Context(), 8))
			time.Sleep(5 * time.Second)
		}
		assert.Less(t, state(t, two).Stored, 1.0)
		require.NoError(t, one.Told(t.Context(), 8))
		assert.InDelta(t, 8, state(t, two).Stored, 0.1)
	})
}

// Processes that know of the same permits do not give each of them twice. They learn of them also while all calls wait.
func TestToldOfTheSamePermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		var fleet []*reserve.Limiter
		for range 4 {
			fleet = append(fleet, b.with(reserve.Config{Limit: reserve.PerHour(100).Burst(100), Settles: true}))
		}
		require.True(t, allowed(t, fleet[0], 100))
		f := newLog()
		for i := range 60 {
			f.wait(t, 1, i, fleet[i%4].Wait)
		}
		for range 62 {
			for _, l := range fleet {
				require.NoError(t, l.Told(t.Context(), 40))
			}
			time.Sleep(time.Second)
		}
		given := len(f.between(time.Minute, f.now()))
		assert.LessOrEqual(t, given, 42, "and two that come by themselves")
		assert.GreaterOrEqual(t, given, 20)
		f.all()
	})
}

// A pause that keeps what is stored lets calls use it afterwards, as the provider does.
func TestPauseKeeping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		limit := reserve.PerSecond(50).Burst(1000)
		one, two := b.limiter(limit), b.limiter(limit)
		require.True(t, allowed(t, one, 900))
		begun := time.Now()
		require.NoError(t, one.PauseKeeping(t.Context(), 10*time.Second, "the shop is busy"))
		assert.Equal(t, "the shop is busy", state(t, two).PauseReason)
		assert.False(t, allowed(t, two, 1))
		require.NoError(t, two.WaitN(t.Context(), 590))
		assert.InDelta(t, 10*time.Second, time.Since(begun), float64(50*time.Millisecond))
		require.NoError(t, two.PauseKeeping(t.Context(), time.Hour, ""))
		require.NoError(t, one.Resume(t.Context()))
		time.Sleep(time.Second)
		assert.True(t, allowed(t, two, 50))
		assert.False(t, allowed(t, two, 50))
	})
}

// Try says in one round trip whether a call has its turn, when to try again, and what is left.
func TestTry(t *testing.T) {
	stores(t, func(t *testing.T, b *bubble, limit reserve.Limit) {
		one, two := b.limiter(limit), b.limiter(limit)
		require.True(t, allowed(t, one, 1))
		time.Sleep(3 * time.Second) // its connections are made …
		require.True(t, allowed(t, one, 1))
		time.Sleep(50 * time.Millisecond) // … and the scripts are loaded
		begun := time.Now()
		a, err := one.TryN(t.Context(), 3)
		require.NoError(t, err)
		assert.Less(t, time.Since(begun), 3*time.Millisecond, "one round trip")
		assert.True(t, a.Granted)
		assert.Zero(t, a.RetryAfter)
		assert.Equal(t, 5, a.Left)
		assert.Positive(t, a.Reset)
		a, err = two.TryN(t.Context(), 6)
		require.NoError(t, err)
		assert.False(t, a.Granted)
		assert.Equal(t, 5, a.Left)
		time.Sleep(a.RetryAfter - 100*time.Millisecond)
		again, err := one.TryN(t.Context(), 6)
		require.NoError(t, err)
		assert.False(t, again.Granted)
		time.Sleep(again.RetryAfter + time.Millisecond)
		again, err = two.TryN(t.Context(), 6)
		require.NoError(t, err)
		assert.True(t, again.Granted)
		_, err = two.TryN(t.Context(), 11)
		require.ErrorIs(t, err, reserve.ErrExceedsBurst)
	})
}

// The states of many keys take few round trips.
func TestStatesOfManyKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.PerHour(10).Burst(10))
		keys := make([]string, 100)
		for i := range keys {
			keys[i] = fmt.Sprint("customer ", i)
			require.True(t, allowed(t, l.For(keys[i]), 1+i%10))
		}
		asked := b.asks.Load()
		states, err := l.States(t.Context(), keys...)
		require.NoError(t, err)
		assert.LessOrEqual(t, b.asks.Load()-asked, int64(5))
		require.Len(t, states, 100)
		for i, s := range states {
			assert.InDelta(t, 9-i%10, s.Stored, 0.1, keys[i])
		}
		states, err = l.States(t.Context())
		require.NoError(t, err)
		assert.Empty(t, states)
		_, err = l.States(t.Context(), "fine", "")
		require.ErrorIs(t, err, reserve.ErrInvalid)
	})
}

// The states of many keys in a group take few round trips, although each name has processes of its own.
func TestStatesOfManyKeysInAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.with(reserve.Config{Group: "fleet", Limit: reserve.PerHour(10).Burst(10)})
		require.True(t, allowed(t, l, 1))
		keys := make([]string, 64)
		for i := range keys {
			keys[i] = fmt.Sprint("customer ", i)
		}
		began := time.Now()
		states, err := l.States(t.Context(), keys...)
		require.NoError(t, err)
		assert.LessOrEqual(t, time.Since(began), 4*2*way, "two round trips for each 32 keys")
		require.Len(t, states, 64)
		for i, s := range states {
			assert.EqualValues(t, 1, s.Processes, keys[i])
		}
	})
}
