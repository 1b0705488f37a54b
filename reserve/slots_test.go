package reserve_test

import (
	"bytes"
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
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/delay"
	"github.com/fleetpace/fleetpace/reserve"
)

// inFlight is a provider that counts the calls that it serves at a time.
type inFlight struct {
	mu              sync.Mutex
	now, most, made int
}

// call takes so long there.
func (p *inFlight) call(d time.Duration) {
	p.begin()
	time.Sleep(d)
	p.end()
}

func (p *inFlight) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now, p.made = p.now+1, p.made+1
	p.most = max(p.most, p.now)
}

func (p *inFlight) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now--
}

// No more calls than there are slots are made at once, and slots do not stand idle.
func TestConcurrent(t *testing.T) {
	for _, n := range []int{1, 2, 10} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				calls := 60 * n
				var api inFlight
				var all sync.WaitGroup
				random := rand.New(rand.NewPCG(1, uint64(n)))
				began, took := time.Now(), time.Duration(0)
				for i := range calls {
					if i%(calls/4) == 0 {
						b.client()
					}
				}
				for range 4 {
					l := b.limiter(reserve.Concurrent(n))
					for range calls / 4 {
						d := time.Duration(5+random.IntN(46)) * time.Millisecond
						took += d
						all.Go(func() {
							held, err := l.Acquire(t.Context(), 1)
							if assert.NoError(t, err) {
								api.call(d)
								held.Release()
							}
						})
					}
				}
				all.Wait()
				used := took.Seconds() / float64(n) / time.Since(began).Seconds()
				t.Logf("MEASURE %d slots used %.3f", n, used)
				assert.LessOrEqual(t, api.most, n)
				assert.Equal(t, calls, api.made)
				assert.GreaterOrEqual(t, used, 0.75, "each call takes two round trips besides, of 2 ms each")
			})
		})
	}
}

// No slot is held while a call waits for the rate, nor is a permit spent while it waits for a
// slot.
func TestConcurrentAndRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		var api inFlight
		var all sync.WaitGroup
		began := time.Now()
		const calls, rate = 200, 50
		for range 2 {
			client := b.client()
			both := joint(t,
				b.on(client, reserve.Config{Name: "rate", Group: "g", Limit: reserve.PerSecond(rate)}),
				b.on(client, reserve.Config{Name: "slots", Group: "g", Limit: reserve.Concurrent(3)}))
			for range calls / 2 {
				all.Go(func() {
					held, err := both.Acquire(t.Context())
					if assert.NoError(t, err) {
						api.call(40 * time.Millisecond)
						held.Release()
					}
				})
			}
		}
		all.Wait()
		t.Logf("MEASURE used %.3f of the rate", float64(calls)/rate/time.Since(began).Seconds())
		assert.LessOrEqual(t, api.most, 3)
		assert.GreaterOrEqual(t, float64(calls)/rate/time.Since(began).Seconds(), 0.95)
	})
}

// Slots of a process that is killed are free soon.
func TestSlotsOfTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		client := b.client()
		one, two := b.on(client, reserve.Config{Limit: reserve.Concurrent(2)}), b.limiter(reserve.Concurrent(2))
		var held []*reserve.Reservation
		for range 2 {
			r, err := one.Acquire(t.Context(), 1)
			require.NoError(t, err)
			held = append(held, r)
		}
		time.Sleep(10 * time.Second) // while it lives it holds them
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		_, err := two.Acquire(ctx, 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		began := time.Now()
		require.NoError(t, client.Close()) // it is silent from now on
		r, err := two.Acquire(t.Context(), 1)
		require.NoError(t, err)
		t.Logf("MEASURE free after %v", time.Since(began))
		assert.LessOrEqual(t, time.Since(began), 5*time.Second)
		r.Release()
		for _, r := range held {
			r.Release()
		}
	})
}

// The calls of a process that is killed stood before others, which hear that there is room before
// the answer comes to what they asked as they heard of the death: they have the slots soon.
func TestSlotsOfTheDeadWhoseCallsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		dying := b.client()
		one := b.on(dying, reserve.Config{Limit: reserve.Concurrent(2)})
		client := slowClient(b, way, 10*way)
		two := b.on(client, reserve.Config{Limit: reserve.Concurrent(2)})
		for range 2 {
			_, err := one.Acquire(t.Context(), 1)
			require.NoError(t, err)
		}
		for range 3 {
			go func() { _, _ = one.Acquire(t.Context(), 1) }()
		}
		time.Sleep(time.Second)
		var had sync.WaitGroup
		for range 2 {
			had.Go(func() {
				_, err := two.Acquire(t.Context(), 1)
				assert.NoError(t, err)
			})
		}
		time.Sleep(5 * time.Second)
		require.NoError(t, dying.Close())
		soonAfter(t, &had)
	})
}

// slowClient has its own ways to Redis and back. News come at once.
func slowClient(b *bubble, out, back time.Duration) *redis.Client {
	return clientOn(b, func() delay.Way {
		var news atomic.Bool
		return delay.Way{
			Out: func(sent []byte) time.Duration {
				if bytes.Contains(sent, []byte("subscribe")) {
					news.Store(true)
				}
				return out
			},
			Back: func() time.Duration {
				if news.Load() {
					return 0
				}
				return back
			},
		}
	})
}

// clientOn has a way to Redis of its own for each connection.
func clientOn(b *bubble, to func() delay.Way) *redis.Client {
	client := redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			dialed, err := b.mini.Dial()
			if err != nil {
				return nil, err
			}
			return delay.Conn(dialed, to()), nil
		},
		Addr: "127.0.0.1:6379", MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		DisableIdentity: true, MaxRetries: -1,
	})
	b.Cleanup(func() { _ = client.Close() })
	return client
}

// soonAfter expects that all calls have slots soon after now.
func soonAfter(t *testing.T, calls *sync.WaitGroup) {
	t.Helper()
	killed := time.Now()
	calls.Wait()
	t.Logf("MEASURE free after %v", time.Since(killed))
	assert.LessOrEqual(t, time.Since(killed), 5*time.Second)
}

// Room that is left by a process that is killed is told to another one that is killed, and holds
// slots as well: all of them are found as soon as that is known, by whoever asks.
func TestSlotsOfTheDeadOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		hold := func(client *redis.Client, calls int) *reserve.Limiter {
			l := b.on(client, reserve.Config{Limit: reserve.Concurrent(4)})
			for range calls {
				_, err := l.Acquire(t.Context(), 1)
				require.NoError(t, err)
			}
			return l
		}
		first, second := b.client(), b.client()
		hold(first, 2)
		two := hold(second, 2)
		slow, fast := hold(slowClient(b, 10*way, way), 0), hold(b.client(), 0)
		var had sync.WaitGroup
		for _, l := range []*reserve.Limiter{two, slow, fast} {
			for range 2 {
				if l == two {
					go func() { _, _ = l.Acquire(t.Context(), 1) }()
					continue
				}
				had.Go(func() {
					_, err := l.Acquire(t.Context(), 1)
					assert.NoError(t, err)
				})
			}
			time.Sleep(time.Second)
		}
		time.Sleep(5 * time.Second)
		require.NoError(t, first.Close())
		time.Sleep(2 * time.Second)
		require.NoError(t, second.Close())
		soonAfter(t, &had)
	})
}

// Who holds slots is seen.
func TestHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.Concurrent(3))
		r, err := l.Flow("tenant").Acquire(t.Context(), 2)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		s := state(t, l)
		require.Len(t, s.Holders, 1)
		assert.Equal(t, "tenant", s.Holders[0].Doing)
		assert.Equal(t, 2, s.Holders[0].Slots)
		assert.InDelta(t, time.Minute, time.Since(s.Holders[0].Since), float64(time.Second))
		assert.InDelta(t, 1, s.Stored, 0)
		r.Release()
		r.Release()
		time.Sleep(time.Second)
		assert.Empty(t, state(t, l).Holders)
		assert.Nil(t, r.Lost())
	})
}

func TestSlotsAreReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.Concurrent(1))
		require.ErrorContains(t, l.Wait(t.Context()), "use Acquire")
		_, err := l.Allow(t.Context())
		require.ErrorIs(t, err, reserve.ErrInvalid)

		// Of a reservation that nobody uses, too.
		r, err := l.Reserve(t.Context())
		require.NoError(t, err)
		require.True(t, r.Granted())
		time.Sleep(4 * time.Second)
		assert.Empty(t, state(t, l).Holders, "its turn is over")
		held, err := l.Acquire(t.Context(), 1)
		require.NoError(t, err)
		r2, err := l.Reserve(t.Context())
		require.NoError(t, err)
		held.Release()
		time.Sleep(100 * time.Millisecond)
		require.True(t, r2.Granted(), "it was told that there is room")
		require.NoError(t, r2.Cancel(t.Context()))
		require.NoError(t, r.Cancel(t.Context()))
		time.Sleep(100 * time.Millisecond)
		assert.Empty(t, state(t, l).Holders)
	})
}

func TestConcurrentIsInvalid(t *testing.T) {
	for _, n := range []int{-1, 0, 1001} {
		require.ErrorContains(t, reserve.Concurrent(n).Validate(), "from 1 to 1000")
	}
	l, err := reserve.ParseLimit("5 at once")
	require.NoError(t, err)
	require.Equal(t, reserve.Concurrent(5), l)
	require.Equal(t, "5 at once", l.String())
	_, err = reserve.ParseLimit("x at once")
	require.ErrorIs(t, err, reserve.ErrInvalid)
}

// A process that can not reach Redis for a while: what it releases meanwhile is free when it is
// back, and of what it holds it hears if others have it.
func TestSlotsOfAProcessThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		var cut atomic.Bool
		client := clientOn(b, func() delay.Way {
			return delay.Way{
				Out: func([]byte) time.Duration { return way }, Back: func() time.Duration { return way }, Lost: cut.Load,
			}
		})
		one := b.on(client, reserve.Config{Limit: reserve.Concurrent(2), Outage: reserve.Outage{Policy: reserve.PolicyWait}})
		two := b.limiter(reserve.Concurrent(2))
		first, err := one.Acquire(t.Context(), 1)
		require.NoError(t, err)
		second, err := one.Acquire(t.Context(), 1)
		require.NoError(t, err)

		cut.Store(true)
		time.Sleep(300 * time.Millisecond)
		first.Release()
		time.Sleep(300 * time.Millisecond)
		cut.Store(false)
		began := time.Now()
		third, err := two.Acquire(t.Context(), 1)
		require.NoError(t, err)
		assert.LessOrEqual(t, time.Since(began), 2*time.Second, "it was released")
		third.Release()
		time.Sleep(2 * time.Second)
		require.Len(t, state(t, two).Holders, 1)

		cut.Store(true)
		time.Sleep(5 * time.Second)
		var held []*reserve.Reservation
		for range 2 {
			r, err := two.Acquire(t.Context(), 1)
			require.NoError(t, err)
			held = append(held, r)
		}
		select {
		case <-second.Lost():
			t.Error("it does not know yet")
		default:
		}
		cut.Store(false)
		select {
		case <-second.Lost():
		case <-time.After(5 * time.Second):
			t.Error("it has not heard")
		}
		assert.Len(t, state(t, two).Holders, 3, "it is in flight all the same")
		for _, r := range append(held, second) {
			r.Release()
		}
		time.Sleep(time.Second)
		assert.Empty(t, state(t, two).Holders)
	})
}

// Redis loses its data: what is held is told to it, and nobody has more.
func TestSlotsOfARedisThatLosesItsData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		one, two := b.limiter(reserve.Concurrent(2)), b.limiter(reserve.Concurrent(2))
		held, err := one.Acquire(t.Context(), 2)
		require.NoError(t, err)
		_ = state(t, two)
		time.Sleep(2 * time.Second)
		b.mini.FlushAll()
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		_, err = two.Acquire(ctx, 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Len(t, state(t, two).Holders, 1)
		held.Release()
		r, err := two.Acquire(t.Context(), 1)
		require.NoError(t, err)
		r.Release()
	})
}

// A release wakes one call, however many wait, each under an ID of its own: what a turn costs
// does not grow with them.
func TestAReleaseWakesOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cost := func(waiting int) float64 {
			b := newBubble(t)
			l := b.limiter(reserve.Concurrent(1))
			both := joint(t, l)
			var all sync.WaitGroup
			for i := range waiting {
				all.Go(func() {
					r, err := both.Ask(t.Context(), fmt.Sprint("task ", i), time.Hour)
					if assert.NoError(t, err) && assert.NoError(t, r.Wait(t.Context())) {
						time.Sleep(100 * time.Millisecond)
						r.Release()
					}
				})
			}
			time.Sleep(time.Second) // all wait
			before := b.mini.CommandCount()
			time.Sleep(2 * time.Second)
			made := b.mini.CommandCount() - before
			all.Wait()
			return float64(made)
		}
		few, many := cost(40), cost(200)
		t.Logf("MEASURE %v commands in 2 s while 40 wait, %v while 200 do", few, many)
		assert.LessOrEqual(t, many, 1.5*few)
	})
}

// Slots that are released while Redis is told that they are held are not held for ever.
func TestReleaseWhileSlotsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		client := b.client()
		var held *reserve.Reservation
		client.AddHook(onKeep(func() {
			held.Release()
			time.Sleep(100 * time.Millisecond)
		}))
		l := b.on(client, reserve.Config{Limit: reserve.Concurrent(1)})
		var err error
		held, err = l.Acquire(t.Context(), 1)
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		b.mini.FlushAll()
		time.Sleep(5 * time.Second)
		require.Nil(t, held.Lost(), "it was released")
		assert.Empty(t, state(t, l).Holders)
	})
}

// onKeep is called before Redis is told what is held.
type onKeep func()

func (onKeep) DialHook(next redis.DialHook) redis.DialHook { return next }

func (onKeep) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h onKeep) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		for _, arg := range cmd.Args() {
			if fmt.Sprint(arg) == "keep" {
				h()
			}
		}
		return next(ctx, cmd)
	}
}
