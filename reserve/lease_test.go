package reserve_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

// leased is a process that takes permits ahead.
func leased(t *testing.T, b *bubble, limit reserve.Limit) (*reserve.Limiter, *wire) {
	return b.wiredWith(t, reserve.Config{Limit: limit, Lease: time.Second})
}

// ahead is how many permits a process has ahead of its calls.
func ahead(l *reserve.Limiter) int64 {
	s := l.LeaseStats()
	return s.Taken - s.Used - s.Returned - s.Lapsed
}

// A call that finds a permit ahead asks nobody, and under steady demand next to none
// is lost.
func TestLeaseUnderSteadyDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perSecond, seconds = 1000, 20
		b := newBubble(t)
		l, wire := leased(t, b, reserve.PerSecond(2*perSecond).Burst(8*perSecond))
		wire.request.Store(int64(5 * time.Millisecond))
		waited := 0
		for range perSecond * seconds {
			start := time.Now()
			require.NoError(t, l.Wait(t.Context()))
			if time.Since(start) > 0 {
				waited++
			}
			time.Sleep(time.Second/perSecond - time.Since(start)%(time.Second/perSecond))
		}
		s := l.LeaseStats()
		t.Logf("%+v, %d script calls, %d calls waited", s, wire.scripts.Load(), waited)
		require.Less(t, waited, perSecond*seconds/100)
		require.Less(t, wire.scripts.Load(), int64(8*seconds))
		require.NoError(t, l.Close())
		s = l.LeaseStats()
		require.Zero(t, ahead(l), "what was ahead went back: %+v", s)
		require.LessOrEqual(t, s.Lapsed, s.Taken/100)
	})
}

// Where each of several processes makes a few calls per second, at random, hardly
// anything goes back: a number that does lies between others, and the next calls of all
// processes cost a take.
func TestLeaseOfAFewCallsPerSecond(t *testing.T) {
	inParallel(t)
	synctest.Test(t, func(t *testing.T) {
		const processes, perSecond, seconds = 4, 50, 120
		b := newBubble(t)
		var all sync.WaitGroup
		var limiters []*reserve.Limiter
		var wires []*wire
		for p := range processes {
			l, wire := leased(t, b, reserve.PerSecond(2*processes*perSecond).Burst(4*processes*perSecond))
			limiters, wires = append(limiters, l), append(wires, wire)
			wire.request.Store(int64(300 * time.Microsecond))
			random := rand.New(rand.NewPCG(uint64(p), 1))
			all.Go(func() {
				for start := time.Now(); time.Since(start) < seconds*time.Second; {
					time.Sleep(time.Duration(random.ExpFloat64() * float64(time.Second/perSecond)))
					require.NoError(t, l.Wait(t.Context()))
				}
			})
		}
		all.Wait()
		var taken, back, scripts int64
		for p, l := range limiters {
			s := l.LeaseStats()
			taken, back, scripts = taken+s.Taken, back+s.Returned+s.Lapsed, scripts+wires[p].scripts.Load()
			require.NoError(t, l.Close())
		}
		t.Logf("%d taken, %d of them not used, %d script calls", taken, back, scripts)
		require.Less(t, back, taken/250)
		require.Less(t, scripts, int64(5*processes*seconds), "four are usual")
	})
}

// Three processes with bursts of calls: the limit holds, and little is lost.
func TestLeaseUnderBurstyDemand(t *testing.T) {
	inParallel(t)
	synctest.Test(t, func(t *testing.T) {
		const rate, burst, lasts = 2000, 2000, 20 * time.Second
		b := newBubble(t)
		const grains = 1000
		api := provider.New(provider.TokenBucket(rate*grains, burst*grains+grains/10))
		var calls atomic.Int64
		var all sync.WaitGroup
		start := time.Now()
		var fleet []*reserve.Limiter
		for p := range 3 {
			l, wire := leased(t, b, reserve.PerSecond(rate).Burst(burst))
			fleet = append(fleet, l)
			wire.request.Store(int64(time.Millisecond))
			for c := range 10 {
				all.Go(func() {
					random := rand.New(rand.NewPCG(uint64(p), uint64(c)))
					for time.Since(start) < lasts {
						// 100 ms of calls in each 500, the processes after each other.
						at := (time.Since(start) + time.Duration(p)*150*time.Millisecond) % (500 * time.Millisecond)
						if at >= 100*time.Millisecond {
							time.Sleep(500*time.Millisecond - at)
						}
						require.NoError(t, l.Wait(t.Context()))
						ok, _ := api.Judge(grains)
						require.True(t, ok, "refused at %v", time.Since(start))
						calls.Add(1)
						time.Sleep(time.Duration(random.IntN(int(12 * time.Millisecond))))
					}
				})
			}
		}
		all.Wait()
		var sum reserve.LeaseStats
		for _, l := range fleet {
			require.NoError(t, l.Close())
			require.Zero(t, ahead(l))
			s := l.LeaseStats()
			sum.Taken, sum.Used = sum.Taken+s.Taken, sum.Used+s.Used
			sum.Returned, sum.Lapsed = sum.Returned+s.Returned, sum.Lapsed+s.Lapsed
		}
		t.Logf("%d calls; %+v", calls.Load(), sum)
		require.Greater(t, sum.Used, calls.Load()/2, "or leases were of no use")
		require.LessOrEqual(t, sum.Lapsed, sum.Taken/20)
	})
}

// Where the limit binds there is nothing to take ahead: everybody waits for his turn, in
// order, and the limit is used to the full.
func TestLeaseWhereTheLimitBinds(t *testing.T) {
	inParallel(t)
	synctest.Test(t, func(t *testing.T) {
		const rate, burst, lasts = 500, 50, 10 * time.Second
		b := newBubble(t)
		const grains = 1000
		api := provider.New(provider.TokenBucket(rate*grains, burst*grains+grains/10))
		var calls atomic.Int64
		var all sync.WaitGroup
		start := time.Now()
		for range 3 {
			l, _ := leased(t, b, reserve.PerSecond(rate).Burst(burst))
			for range 20 {
				all.Go(func() {
					for time.Since(start) < lasts {
						require.NoError(t, l.Wait(t.Context()))
						ok, _ := api.Judge(grains)
						require.True(t, ok, "refused at %v", time.Since(start))
						calls.Add(1)
					}
				})
			}
		}
		all.Wait()
		require.GreaterOrEqual(t, float64(calls.Load()), 0.99*rate*lasts.Seconds())
	})
}

// Permits that nobody uses go back before they overflow; a process that slept past them
// does not use them.
func TestLeaseThatIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, _ := leased(t, b, reserve.PerSecond(100).Burst(1000))
		for range 200 {
			require.NoError(t, l.Wait(t.Context()))
			time.Sleep(10 * time.Millisecond)
		}
		require.Positive(t, ahead(l))
		time.Sleep(time.Second)
		synctest.Wait()
		require.Zero(t, ahead(l))
		s := l.LeaseStats()
		require.Positive(t, s.Returned)
		require.Zero(t, s.Lapsed, "%+v", s)
	})
}

// A lease is for the calls of one key.
func TestLeasePerKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, wire := leased(t, b, reserve.PerSecond(1000).Burst(4000))
		for range 2000 {
			require.NoError(t, l.For("a").Wait(t.Context()))
			require.NoError(t, l.For("b").WaitN(t.Context(), 3))
			time.Sleep(4 * time.Millisecond)
		}
		require.Less(t, wire.scripts.Load(), int64(400), "of 4,000 calls")
		require.NoError(t, l.Close())
		require.Zero(t, ahead(l))
	})
}

// A process that closes at the moment at which permits become too old gives them back
// once, and Close waits for it.
func TestLeaseGetsOldAsItCloses(t *testing.T) {
	inParallel(t)
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		for range 100 {
			l, wire := leased(t, b, reserve.PerSecond(1000).Burst(1000))
			for range 200 {
				require.NoError(t, l.Wait(t.Context()))
				time.Sleep(time.Millisecond)
			}
			require.Positive(t, ahead(l))
			wire.request.Store(int64(5 * time.Millisecond))
			time.Sleep(l.UntilOld())
			require.NoError(t, l.Close())
			s := l.LeaseStats()
			require.Zero(t, ahead(l), "%+v", s)
			require.Positive(t, s.Returned)
		}
	})
}
