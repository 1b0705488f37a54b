package reserve_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/delay"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// mortal is a process that may be killed: nothing that it sends arrives then, and nobody hears of that.
type mortal struct {
	*reserve.Limiter
	killed atomic.Bool
}

func (b *bubble) mortal(limit reserve.Limit) *mortal {
	p, over := &mortal{}, make(chan struct{})
	client := redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			dialed, err := b.mini.Dial()
			if err != nil {
				return nil, err
			}
			return delay.Conn(dialed, delay.Way{
				Out: func([]byte) time.Duration {
					if p.killed.Load() {
						<-over
						return time.Hour
					}
					b.asks.Add(1)
					return way
				},
				Back: func() time.Duration { return way },
				Dead: p.killed.Load,
			}), nil
		},
		Addr:                     "127.0.0.1:6379",
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		DisableIdentity:          true,
		MaxRetries:               -1,
		PoolSize:                 1000,
	})
	l, err := reserve.New(client, reserve.Config{Name: "api", Limit: limit})
	require.NoError(b, err)
	p.Limiter = l
	b.Cleanup(func() {
		if p.killed.Load() {
			_ = client.Close()
		}
		close(over)
		_ = l.Close()
		_ = client.Close()
	})
	return p
}

// Processes that crash soon after each of their starts leave places that nobody asks for. The others
// use their limit all the same, and nobody asks Redis in a loop. A process that starts while nobody
// waits is given turns at once, which are lost with it: so where few wait, turns count that it was given.
func TestCrashLoops(t *testing.T) {
	const rate = 100
	for _, test := range []struct {
		every   time.Duration
		lasts   time.Duration
		burst   int
		callers int // of each of the two processes that live
		given   bool
		least   float64
	}{
		{100 * time.Millisecond, redistest.Budget(20*time.Second, 6*time.Second), 1, 10, true, 0.8},
		{100 * time.Millisecond, 6 * time.Second, 10, 20, false, 0.8},
		{time.Second, 8 * time.Second, 1, 20, false, 0.97},
		{time.Second, 8 * time.Second, 10, 20, false, 0.97},
		{time.Second, 8 * time.Second, 1, 10, true, 0.97},
	} {
		t.Run(fmt.Sprint("every ", test.every, ", burst ", test.burst, ", callers ", test.callers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				limit := reserve.PerSecond(rate).Burst(test.burst)
				random := rand.New(rand.NewPCG(1, 1))
				var made, given atomic.Int64
				var all sync.WaitGroup
				ctx, stop := context.WithCancel(t.Context())
				call := func(l *reserve.Limiter, callers int, count *atomic.Int64) {
					for range callers {
						all.Go(func() {
							for l.Wait(ctx) == nil {
								count.Add(1)
							}
						})
					}
				}
				for range 2 {
					call(b.limiter(limit), test.callers, &made)
				}
				time.Sleep(time.Second)
				began, asked := time.Now(), b.asks.Load()
				made.Store(0)
				given.Store(0)
				for time.Since(began) < test.lasts {
					p := b.mortal(limit)
					call(p.Limiter, 10, &given)
					time.Sleep(20*time.Millisecond + time.Duration(random.IntN(60))*time.Millisecond)
					p.killed.Store(true)
					time.Sleep(time.Until(began.Add((time.Since(began)/test.every + 1) * test.every)))
				}
				turns := made.Load()
				if test.given {
					turns += given.Load()
				}
				used := float64(turns) / rate / time.Since(began).Seconds()
				commands := float64(b.asks.Load()-asked) / time.Since(began).Seconds()
				stop()
				all.Wait()
				t.Logf("%.3f used, %.0f commands per second", used, commands)
				require.GreaterOrEqual(t, used, test.least)
				require.LessOrEqual(t, commands, 4.0*rate)
			})
		})
	}
}
