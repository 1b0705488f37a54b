package reserve_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/delay"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// soon takes a slot, and lets it go: it must be free within five seconds.
func soon(t *testing.T, j *reserve.Joint) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	r, err := j.Acquire(ctx)
	require.NoError(t, err)
	r.Release()
}

// taking takes a slot, however long that takes, and lets it go; then it tells how that went.
func taking(j *reserve.Joint) <-chan error {
	ended := make(chan error, 1)
	go func() {
		r, err := j.Acquire(context.Background())
		if err == nil {
			r.Release()
		}
		ended <- err
	}()
	return ended
}

// Close does not wait for a Redis that is away, though there are slots to let go.
func TestCloseWithSlotsWithoutRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.with(reserve.Config{Limit: reserve.Concurrent(2), Outage: reserve.Outage{Policy: reserve.PolicyWait, Probe: time.Minute}})
		_, err := l.Acquire(t.Context(), 1)
		require.NoError(t, err)
		released, err := l.Acquire(t.Context(), 1)
		require.NoError(t, err)
		b.mini.SetError(loading)
		ended := taking(joint(t, l))
		time.Sleep(10 * time.Second)
		released.Release()
		began := time.Now()
		go func() { _ = l.Close() }()
		require.ErrorIs(t, <-ended, reserve.ErrClosed)
		require.NoError(t, l.Close())
		require.LessOrEqual(t, time.Since(began), 100*time.Millisecond)
	})
}

// The replies to the ask of a new call are lost until Redis counts as away. The slot that it was
// given in vain is free when Redis is back.
func TestASlotOfALostReplyIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.with(reserve.Config{Limit: reserve.Concurrent(1), Outage: reserve.Outage{Policy: reserve.PolicyWait}})
		soon(t, joint(t, l))
		time.Sleep(time.Second)
		b.cut.Store(true)
		ended := taking(joint(t, l))
		time.Sleep(1500 * time.Millisecond)
		b.cut.Store(false)
		select {
		case err := <-ended:
			require.NoError(t, err)
		case <-time.After(5 * time.Second):
			t.Fatal("the slot is lost")
		}
	})
}

// A pause is heard before the reply that gives a new call its turn: that turn is void, and its slot
// is free.
func TestASlotOfAVoidTurnIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		var late atomic.Int64 // the reply to the next ask
		client := clientOn(b, func() delay.Way {
			var asked atomic.Bool
			return delay.Way{
				Out: func(sent []byte) time.Duration {
					asked.Store(bytes.Contains(sent, []byte(lua.Ask.Hash())))
					return way
				},
				Back: func() time.Duration {
					if asked.Load() {
						return way + time.Duration(late.Swap(0))
					}
					return way
				},
			}
		})
		rate, slots := reserve.PerSecond(100), reserve.Concurrent(1)
		mine := joint(t, b.on(client, reserve.Config{Name: "rate", Group: "g", Limit: rate}), b.on(client, reserve.Config{Name: "slots", Group: "g", Limit: slots}))
		other := b.client()
		others := joint(t, b.on(other, reserve.Config{Name: "rate", Group: "g", Limit: rate}), b.on(other, reserve.Config{Name: "slots", Group: "g", Limit: slots}))
		for range 5 { // then it knows the way, and listens
			soon(t, mine)
			time.Sleep(100 * time.Millisecond)
		}
		late.Store(int64(50 * time.Millisecond))
		ended := taking(mine)
		time.Sleep(20 * time.Millisecond)
		require.NoError(t, others.Pause(t.Context(), time.Second, "told so"))
		select {
		case err := <-ended:
			require.NoError(t, err)
		case <-time.After(5 * time.Second):
			t.Fatal("the slot is lost")
		}
	})
}

// A call lets its turn lapse, asks anew while Redis is away, and gives up: its slot is free.
func TestASlotOfALapsedTurnIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		outage := reserve.Outage{Policy: reserve.PolicyWait}
		l := b.with(reserve.Config{Limit: reserve.Concurrent(1), Outage: outage})
		r, err := l.Reserve(t.Context())
		require.NoError(t, err)
		require.True(t, r.Granted())
		b.mini.SetError(loading)
		going, stop := context.WithCancel(t.Context())
		go func() { _, _ = l.Acquire(going, 1) }() // notices that Redis is away
		time.Sleep(1030 * time.Millisecond)        // it has just lapsed
		stop()
		ctx, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer stop()
		require.ErrorIs(t, r.Wait(ctx), context.DeadlineExceeded)
		require.NoError(t, r.Cancel(t.Context()))
		b.mini.SetError("")
		time.Sleep(2 * time.Second)
		soon(t, joint(t, l))
	})
}

// A call whose wait has failed, as Redis was away, waits again.
func TestWaitAgainAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.with(reserve.Config{Limit: reserve.Every(10 * time.Second), Outage: reserve.Outage{Policy: reserve.PolicyFail, Probe: time.Second}})
		require.NoError(t, l.Wait(t.Context()))
		r, err := l.Reserve(t.Context())
		require.NoError(t, err)
		b.mini.SetError(loading)
		going := make(chan error)
		go func() { going <- l.Wait(context.Background()) }()
		require.ErrorIs(t, r.Wait(context.Background()), reserve.ErrUnavailable)
		require.ErrorIs(t, <-going, reserve.ErrUnavailable)
		b.mini.SetError("")
		time.Sleep(5 * time.Second)
		ended := make(chan error)
		go func() { ended <- r.Wait(context.Background()) }()
		select {
		case err := <-ended:
			require.NoError(t, err)
		case <-time.After(time.Minute):
			t.Fatal("nobody wakes it")
		}
	})
}

// A process signs off as nobody needs it any more, and just then a call comes. Others may have its
// slot until Redis hears that the process lives: the call waits, or is told.
func TestACallWhileItsProcessSignsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		const far = 200 * time.Millisecond
		one := b.on(clientOn(b, func() delay.Way {
			return delay.Way{Out: func([]byte) time.Duration { return far }, Back: func() time.Duration { return far }}
		}), reserve.Config{Limit: reserve.Concurrent(1)})
		two := b.limiter(reserve.Concurrent(1))
		soon(t, joint(t, one))
		keys := lua.BeatKeys(reserve.DefaultPrefix, "", "api")
		signedOff := func() bool {
			members, err := b.mini.ZMembers(keys[0])
			require.NoError(t, err)
			score, err := b.mini.ZScore(keys[0], members[0])
			return err == nil && score < 0
		}
		for !signedOff() {
			time.Sleep(time.Millisecond)
		}
		got := make(chan *reserve.Reservation)
		go func() {
			r, err := one.Acquire(context.Background(), 1)
			if err != nil {
				t.Error(err)
			}
			got <- r
		}()
		time.Sleep(far + far/4)
		other, err := two.Acquire(t.Context(), 1)
		require.NoError(t, err, "for Redis the process of the first has ended")
		select {
		case r := <-got:
			select {
			case <-r.Lost():
			case <-time.After(3 * time.Second):
				t.Error("it does not know")
			}
			r.Release()
			other.Release()
		case <-time.After(3 * time.Second): // it has asked behind its next heartbeat
			other.Release()
			r := <-got
			r.Release()
		}
	})
}

// Redis loses its data while calls wait for a slot, and nobody is left who would tell them that it
// is free: they ask as soon as slots are given again.
func TestSlotsAreFoundAfterALossOfData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		one, two := b.limiter(reserve.Concurrent(1)), b.limiter(reserve.Concurrent(1))
		held, err := one.Acquire(t.Context(), 1)
		require.NoError(t, err)
		ended := taking(joint(t, two))
		time.Sleep(2 * time.Second)
		b.mini.FlushAll()
		held.Release()
		began := time.Now()
		require.NoError(t, <-ended)
		require.LessOrEqual(t, time.Since(began), 6*time.Second)
	})
}
