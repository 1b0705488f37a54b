package reserve_test

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/delay"
	"github.com/fleetpace/fleetpace/reserve"
)

// The client would log every connection that it can not have.
func init() { logging.Disable() }

// A message is lost that says that there is a slot, though the process hears news. The slot is not
// idle until its calls ask anyway.
func TestALostMessageOfASlot(t *testing.T) {
	for _, waiting := range []int{1, 5} {
		for _, slots := range []int{1, 2} {
			for _, after := range []time.Duration{100 * time.Millisecond, 3 * time.Second, time.Minute} {
				t.Run(fmt.Sprintf("%d wait for one of %d slots for %v", waiting, slots, after), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						b := newBubble(t)
						var loses atomic.Bool
						client := clientOn(b, func() delay.Way {
							var news atomic.Bool
							return delay.Way{
								Out: func(sent []byte) time.Duration {
									if bytes.Contains(sent, []byte("\r\nsubscribe\r\n")) {
										news.Store(true)
									}
									return way
								},
								Back: func() time.Duration { return way },
								Dead: func() bool { return news.Load() && loses.Load() },
							}
						})
						one, two := b.limiter(reserve.Concurrent(slots)), b.on(client, reserve.Config{Limit: reserve.Concurrent(slots)})
						var held []*reserve.Reservation
						for range slots {
							r, err := one.Acquire(t.Context(), 1)
							require.NoError(t, err)
							held = append(held, r)
						}
						ended := make(chan error, waiting)
						for range waiting {
							go func() {
								r, err := two.Acquire(t.Context(), 1)
								if err == nil {
									r.Release()
								}
								ended <- err
							}()
						}
						time.Sleep(after)
						loses.Store(true)
						held[0].Release()
						time.Sleep(100 * time.Millisecond)
						loses.Store(false)
						began := time.Now()
						for range waiting {
							require.NoError(t, <-ended)
						}
						require.LessOrEqual(t, time.Since(began), time.Second)
						for _, r := range held[1:] {
							r.Release()
						}
					})
				})
			}
		}
	}
}

// A pause ends, and no message says so: who waits for a slot has it then.
func TestSlotsAfterAPause(t *testing.T) {
	for _, paused := range []time.Duration{time.Second, 5 * time.Second, time.Minute} {
		for _, before := range []bool{false, true} { // the slot is let go before the pause, and taken by nobody
			t.Run(fmt.Sprintf("of %v, free before %v", paused, before), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBubble(t)
					one, two := b.limiter(reserve.Concurrent(1)), b.limiter(reserve.Concurrent(1))
					held, err := one.Acquire(t.Context(), 1)
					require.NoError(t, err)
					if before {
						held.Release()
						time.Sleep(100 * time.Millisecond)
					}
					began := time.Now()
					require.NoError(t, one.Pause(t.Context(), paused, "told so"))
					first, second := taking(joint(t, two)), taking(joint(t, two))
					time.Sleep(paused / 2)
					held.Release()
					require.NoError(t, <-first)
					require.NoError(t, <-second)
					require.InDelta(t, paused.Seconds(), time.Since(began).Seconds(), 0.3)
				})
			})
		}
	}
}
