package reserve_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/delay"
	"github.com/fleetpace/fleetpace/reserve"
)

// forgetful is a connection on which the end of a call gets lost: what arrives says that the call leaves
// a place, which it does not have.
type forgetful struct {
	net.Conn
	lose *atomic.Int32 // so many of them
}

func (c forgetful) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("\r\ndone\r\n")) && c.lose.Add(-1) >= 0 {
		_, err := c.Conn.Write(bytes.ReplaceAll(p, []byte("\r\n$4\r\ndone\r\n"), []byte("\r\n$5\r\nplace\r\n")))
		return len(p), err
	}
	return c.Conn.Write(p)
}

func (b *bubble) forgetful(lose *atomic.Int32) *redis.Client {
	there := delay.Way{Out: func([]byte) time.Duration { return way }, Back: func() time.Duration { return way }}
	client := redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			dialed, err := b.mini.Dial()
			if err != nil {
				return nil, err
			}
			return forgetful{delay.Conn(dialed, there), lose}, nil
		},
		Addr: "127.0.0.1:6379", MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		DisableIdentity: true, MaxRetries: -1,
	})
	b.Cleanup(func() { _ = client.Close() })
	return client
}

// free is when a slot is free for a call of another process, or how long that waited in vain.
func free(j *reserve.Joint) (time.Duration, error) {
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	defer stop()
	began := time.Now()
	r, err := j.Acquire(ctx)
	if err == nil {
		r.Release()
	}
	return time.Since(began), err
}

// slotsOf are limits of slots that calls of several kinds need: their costs are 1 and 3 of 3.
var slotsOf = map[string]struct {
	limit    reserve.Limit
	cost     int
	key      string
	withRate bool
}{
	"one":         {reserve.Concurrent(1), 1, "", false},
	"three":       {reserve.Concurrent(3), 3, "", false},
	"of a key":    {reserve.Concurrent(1), 1, "key", false},
	"with a rate": {reserve.Concurrent(1), 1, "", true},
	"all of it":   {reserve.Concurrent(3), 3, "key", true},
}

// holdingOf lets a call of one process hold all slots that another process needs.
func holdingOf(t *testing.T, b *bubble, client redis.UniversalClient, kind string) (*reserve.Reservation, *reserve.Limiter, func() (time.Duration, error)) {
	of := slotsOf[kind]
	make := func(client redis.UniversalClient) (*reserve.Limiter, *reserve.Joint) {
		slots := b.on(client, reserve.Config{Group: "g", Name: "slots", Limit: of.limit})
		if of.key != "" {
			slots = slots.For(of.key)
		}
		if of.withRate {
			return slots, joint(t, slots, b.on(client, reserve.Config{Group: "g", Name: "rate", Limit: reserve.PerSecond(100)}))
		}
		return slots, joint(t, slots)
	}
	costs := []int{of.cost}
	if of.withRate {
		costs = append(costs, 1)
	}
	_, others := make(b.client())
	r, err := others.Acquire(t.Context(), costs...) // the scripts are there
	require.NoError(t, err)
	r.Release()
	slots, mine := make(client)
	r, err = mine.Acquire(t.Context(), costs...)
	require.NoError(t, err)
	return r, slots, func() (time.Duration, error) { return free(others) }
}

// The message that a call is done is lost. Its process lives, and its slots are free soon.
func TestALostDoneHoldsNoSlot(t *testing.T) {
	for kind := range slotsOf {
		for _, long := range []time.Duration{20 * time.Millisecond, 3 * time.Second, time.Minute} {
			t.Run(fmt.Sprintf("%s, held for %v", kind, long), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBubble(t)
					var lose atomic.Int32
					r, _, free := holdingOf(t, b, b.forgetful(&lose), kind)
					time.Sleep(long)
					lose.Store(1)
					r.Release()
					took, err := free()
					require.NoError(t, err)
					require.LessOrEqual(t, lose.Load(), int32(0), "nothing was lost")
					require.LessOrEqual(t, took, 5*time.Second)
					t.Logf("free after %v", took)
				})
			})
		}
	}
}

// A copy of an ask comes when its call is done. Nobody waits for what it is given, which is free soon.
func TestACopyOfAnAskAfterItsEndHoldsNoSlot(t *testing.T) {
	for kind := range slotsOf {
		for _, late := range []time.Duration{20 * time.Millisecond, 5 * time.Second} {
			t.Run(fmt.Sprintf("%s, %v late", kind, late), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBubble(t)
					c := &copier{bubble: b}
					r, _, free := holdingOf(t, b, c.client(), kind)
					time.Sleep(100 * time.Millisecond)
					r.Release()
					time.Sleep(late)
					c.again()
					took, err := free()
					require.NoError(t, err)
					require.LessOrEqual(t, took, 9*time.Second)
					t.Logf("free after %v", took)
				})
			})
		}
	}
}

// A copy of an ask comes right after the process has looked which calls hold slots. The less the slots are
// used, the later the process looks again.
func TestACopyOfAnAskAfterALookHoldsNoSlot(t *testing.T) {
	for kind := range slotsOf {
		for _, late := range []time.Duration{0, 2 * time.Second, 4500 * time.Millisecond, 5 * time.Second} {
			t.Run(fmt.Sprintf("%s, %v late", kind, late), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBubble(t)
					c := &copier{bubble: b}
					r, _, free := holdingOf(t, b, c.client(), kind)
					time.Sleep(100 * time.Millisecond)
					r.Release()
					released := time.Now()
					c.look(released.Add(late))
					c.again()
					came := time.Since(released)
					took, err := free()
					require.NoError(t, err)
					require.LessOrEqual(t, took, 7*time.Second, "the copy came after %v", came)
					t.Logf("free %v after the copy, which came after %v", took, came)
				})
			})
		}
	}
}

// An operator takes slots away from a call. It is told, and does not take them back: not after an
// outage either.
func TestFreedSlotsStayFree(t *testing.T) {
	for kind, of := range slotsOf {
		for _, away := range []time.Duration{0, 3 * time.Second, 20 * time.Second} {
			for _, soon := range []bool{true, false} { // the outage begins before the holder can hear of it
				t.Run(fmt.Sprintf("%s, away for %v, %v", kind, away, soon), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						b := newBubble(t)
						var cut atomic.Bool
						client := redis.NewClient(&redis.Options{
							Dialer: func(context.Context, string, string) (net.Conn, error) {
								dialed, err := b.mini.Dial()
								if err != nil {
									return nil, err
								}
								return delay.Conn(dialed, delay.Way{Out: func([]byte) time.Duration { return way }, Back: func() time.Duration { return way }, Lost: cut.Load, Dead: func() bool { return false }}), nil
							},
							Addr: "127.0.0.1:6379", MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
							DisableIdentity: true, MaxRetries: -1,
						})
						t.Cleanup(func() { _ = client.Close() })
						r, _, free := holdingOf(t, b, client, kind)
						time.Sleep(2 * time.Second)
						if soon {
							cut.Store(away > 0)
						}
						operator := b.with(reserve.Config{Group: "g", Name: "slots", Limit: of.limit})
						if of.key != "" {
							operator = operator.For(of.key)
						}
						state, err := operator.State(t.Context())
						require.NoError(t, err)
						require.Len(t, state.Holders, 1)
						freed, err := operator.Free(t.Context(), state.Holders[0])
						require.NoError(t, err)
						require.True(t, freed)
						if !soon {
							time.Sleep(3 * time.Second)
							cut.Store(away > 0)
						}
						time.Sleep(away)
						cut.Store(false)
						select {
						case <-r.Lost():
						case <-time.After(10 * time.Second):
							t.Error("the holder is not told")
						}
						time.Sleep(10 * time.Second)
						state, err = operator.State(t.Context())
						require.NoError(t, err)
						require.Empty(t, state.Holders)
						took, err := free()
						require.NoError(t, err)
						require.LessOrEqual(t, took, time.Second)
						r.Release()
					})
				})
			}
		}
	}
}

// The same for a limit that nobody has used for a while, of a process that uses others meanwhile.
func TestALostDoneAfterARestHoldsNoSlot(t *testing.T) {
	for _, rest := range []time.Duration{5 * time.Second, 20 * time.Second, 40 * time.Second} {
		t.Run(rest.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				var lose atomic.Int32
				client, one := b.forgetful(&lose), reserve.Config{Group: "g", Name: "slots", Limit: reserve.Concurrent(1)}
				slots, rate := b.on(client, one), b.on(client, reserve.Config{Group: "g", Name: "rate", Limit: reserve.PerSecond(100)})
				use := func() {
					r, err := slots.Acquire(t.Context(), 1)
					require.NoError(t, err)
					r.Release()
				}
				use()
				for end := time.Now().Add(rest); time.Now().Before(end); time.Sleep(time.Second) {
					require.NoError(t, rate.Wait(t.Context()))
				}
				lose.Store(1)
				use()
				took, err := free(joint(t, b.with(one)))
				require.NoError(t, err)
				require.LessOrEqual(t, lose.Load(), int32(0), "nothing was lost")
				t.Logf("free after %v", took)
				require.LessOrEqual(t, took, 5*time.Second)
			})
		})
	}
}
