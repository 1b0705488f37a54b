package adaptive_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/adaptive"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

const near = 1e-6 // rates are intervals in Redis

// Four processes, each with many calls that were refused, report at the same moment.
func TestOneDecreasePerIncident(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		fleet := b.fleet(4, reserve.PerSecond(100), adaptive.Config{})
		sent := time.Now()
		time.Sleep(100 * time.Millisecond)
		var together sync.WaitGroup
		for _, p := range fleet {
			for i := range 25 {
				together.Go(func() { p.rate.Report(sent.Add(time.Duration(i)*time.Millisecond), true) })
			}
		}
		together.Wait()
		synctest.Wait()
		require.InDelta(t, 70, fleet[3].now(t), near)
		require.Equal(t, 1, b.decisions())
	})
}

// Refusals of calls that were sent before the decrease, or within Settle after it, come
// late, also from processes that knew nothing of the incident.
func TestLateRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		fleet := b.fleet(4, reserve.PerSecond(100), adaptive.Config{Settle: 2 * time.Second})
		before := time.Now()
		time.Sleep(time.Second)
		fleet[0].refused()
		require.InDelta(t, 70, fleet[0].now(t), near)
		time.Sleep(2*time.Second - time.Millisecond)
		within := time.Now()
		time.Sleep(time.Millisecond)
		for _, p := range fleet {
			p.refusedFor(before)
			p.refusedFor(within)
		}
		time.Sleep(time.Second)
		for _, p := range fleet {
			p.refusedFor(within)
		}
		require.Equal(t, 1, b.decisions())

		fleet[2].refused()
		require.InDelta(t, 49, fleet[0].now(t), near, "another incident")
		require.Equal(t, 2, b.decisions())
	})
}

// What is known costs no round trip.
func TestRefusalsAreCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		p := b.process(reserve.PerSecond(100), adaptive.Config{})
		p.refused()
		before := b.Scripts.Load()
		for range 1000 {
			p.rate.Report(time.Now(), true)
		}
		synctest.Wait()
		require.Equal(t, before, b.Scripts.Load())
	})
}

// The process that decided can not set the limit any more: another one does, once.
func TestTheDecisionSurvivesTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		fleet := b.fleet(3, reserve.PerSecond(100), adaptive.Config{})
		b.Refuse(lua.Set)
		fleet[0].refused()
		b.Refuse(nil)
		require.Equal(t, 1, b.decisions())
		require.InDelta(t, 100, fleet[1].now(t), near)
		time.Sleep(500 * time.Millisecond)
		fleet[1].refused()
		require.InDelta(t, 100, fleet[1].now(t), near, "it may still come")
		time.Sleep(500 * time.Millisecond)
		for _, p := range fleet[1:] {
			p.refused()
		}
		require.InDelta(t, 70, fleet[1].now(t), near)
		require.Equal(t, 1, b.decisions())
	})
}

// Each key has a rate of its own.
func TestKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		p, other := b.process(reserve.PerSecond(100), adaptive.Config{}), b.process(reserve.PerSecond(100), adaptive.Config{})
		p.rate.For("a").Report(time.Now(), true)
		p.rate.For("").Report(time.Now(), true)
		p.rate.For(string(make([]byte, 513))).Report(time.Now(), true)
		synctest.Wait()
		other.rate.For("a").Report(time.Now().Add(-time.Millisecond), true)
		other.rate.For("b/c}").Report(time.Now(), true)
		synctest.Wait()
		for key, want := range map[string]float64{"a": 70, "b": 100, "b/c}": 70} {
			require.InDelta(t, want, process{Limiter: p.For(key)}.now(t), near, key)
		}
		require.InDelta(t, 100, p.now(t), near)
		require.Equal(t, "api/a", p.rate.For("a").String())

		// A Rate of a limiter that has a key already is that key's.
		same, err := adaptive.New(b.Client(), p.For("a"), adaptive.Config{})
		require.NoError(t, err)
		defer same.Close()
		time.Sleep(2 * time.Second)
		process{rate: same}.refused()
		require.InDelta(t, 49, process{Limiter: p.For("a")}.now(t), near)
	})
}

// Redis's clock goes back by an hour: nothing is held up by what it said before.
func TestTheClockGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		fleet := b.fleet(2, reserve.PerSecond(100), adaptive.Config{})
		fleet[0].refused()
		b.Redis.SetTime(time.Now().Add(-time.Hour))
		fleet[1].refused()
		for range 3 {
			b.Redis.SetTime(time.Now().Add(-time.Hour))
			fleet[1].refused()
			time.Sleep(2 * time.Second)
		}
		require.Greater(t, b.decisions(), 1)
		require.Less(t, b.decisions(), 5)
	})
}
