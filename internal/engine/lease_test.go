package engine_test

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A call that finds a turn ahead asks nobody, and under steady demand next to none is lost.
func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perSecond = 1000
		b := newBubble(t)
		judge := strict(2*perSecond, 8*perSecond)
		p := b.process(2500 * time.Microsecond)
		l := p.paced("", 2*perSecond, 8*perSecond)
		l.Lease = time.Second
		length := seconds(20)
		waited, calls, end := 0, 0, time.Now().Add(length)
		for ; time.Now().Before(end); calls++ {
			began := time.Now()
			_, err := p.Wait(t.Context(), one(l))
			require.NoError(t, err)
			judge.call()
			if time.Since(began) > 0 {
				waited++
			}
			time.Sleep(time.Second/perSecond - time.Since(began)%(time.Second/perSecond))
		}
		t.Logf("%d calls, %d waited, %d script calls, %+v", calls, waited, b.asks.Load(), p.LeaseStats(p.name))
		require.Zero(t, judge.refused, judge.worst)
		require.Less(t, waited, calls/50)
		require.Less(t, float64(b.asks.Load()), 8*length.Seconds())
		p.Close()
		s := p.LeaseStats(p.name)
		require.Zero(t, s.Taken-s.Used-s.Returned-s.Lapsed, "what was ahead went back: %+v", s)
		require.LessOrEqual(t, s.Lapsed, s.Taken/50)
	})
}

// Calls that come in bursts, while others are under way, find turns ahead, too; what is left
// of them at the end of a burst goes back.
func TestLeaseOfBursts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rounds, perSecond = 10, 2000
		b := newBubble(t)
		p := b.process(2500 * time.Microsecond)
		need := one(p.paced("", 1e6, 1e9))
		need.Limit.Lease = time.Second
		var waited, calls atomic.Int64
		random := rand.New(rand.NewPCG(1, 1))
		for range rounds {
			var all sync.WaitGroup
			for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
				time.Sleep(time.Duration(random.ExpFloat64() / perSecond * float64(time.Second)))
				all.Go(func() {
					began := time.Now()
					_, err := p.Wait(t.Context(), need)
					require.NoError(t, err)
					calls.Add(1)
					if time.Since(began) > 0 {
						waited.Add(1)
					}
				})
			}
			all.Wait()
			time.Sleep(900 * time.Millisecond)
		}
		s := p.LeaseStats(p.name)
		t.Logf("%d calls, %d waited, %d script calls, %+v", calls.Load(), waited.Load(), b.asks.Load(), s)
		require.Less(t, waited.Load(), calls.Load()/10)
		require.Less(t, b.asks.Load(), calls.Load()/10)
		require.LessOrEqual(t, s.Lapsed, s.Taken/20)
	})
}

// Several processes with turns ahead never use more than the limit together; a pause takes
// what they have.
func TestLeasesOfAFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 1000
		b := newBubble(t)
		judge := strict(rate, 200)
		var processes []*process
		for range 4 {
			processes = append(processes, b.process(2*time.Millisecond))
		}
		first := processes[0].paced("", rate, 200)
		for _, p := range processes {
			l := p.paced("", rate, 200)
			l.Lease = time.Second
			defer p.closed(20, seconds(10), one(l), judge, 0).Wait()
		}
		time.Sleep(seconds(5))
		require.NoError(t, processes[0].Pause(t.Context(), processes[0].limits(first), seconds(2), "told so", false))
		time.Sleep(10 * time.Millisecond)
		before := judge.made()
		time.Sleep(seconds(1.9))
		require.Equal(t, before, judge.made(), "none during the pause")
		time.Sleep(seconds(1))
		require.Zero(t, judge.refused, judge.worst)
	})
}

// When the calls of many keys end at once, what is left of their leases goes back in few trips.
func TestLeasesOfManyKeysGoBackTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys, perKey = 200, 40
		b := newBubble(t)
		p := b.process(time.Millisecond)
		var all sync.WaitGroup
		for i := range keys {
			l := p.paced(strconv.Itoa(i), 1000, 1000)
			l.Lease = time.Second
			all.Go(func() {
				for range perKey {
					_, err := p.Wait(t.Context(), one(l))
					require.NoError(t, err)
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		all.Wait()
		before := b.asks.Load()
		time.Sleep(2 * time.Second)
		s := p.LeaseStats(p.name)
		t.Logf("%+v, %d script calls for what is left", s, b.asks.Load()-before)
		require.Greater(t, s.Returned, int64(keys))
		require.LessOrEqual(t, b.asks.Load()-before, int64(keys/10))
	})
}
