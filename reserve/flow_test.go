package reserve_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// callers call one after the other until the context ends, and are counted.
type callers struct {
	mu    sync.Mutex
	busy  sync.WaitGroup
	calls map[string]int
	waits map[string][]time.Duration
}

func newCallers() *callers {
	return &callers{calls: map[string]int{}, waits: map[string][]time.Duration{}}
}

// go n lets n callers of a flow call for as long as the context lasts, with a pause in between.
func (c *callers) call(ctx context.Context, n int, flow string, turns reserve.Turns, pause time.Duration, costs ...int) {
	j, err := reserve.All(turns.Limits()...)
	if err != nil {
		panic(err)
	}
	for range n {
		c.busy.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				if j.Wait(ctx, costs...) != nil {
					return
				}
				c.mu.Lock()
				c.calls[flow]++
				c.waits[flow] = append(c.waits[flow], time.Since(began))
				c.mu.Unlock()
				select {
				case <-time.After(max(pause, time.Microsecond)):
				case <-ctx.Done():
				}
			}
		})
		time.Sleep(time.Microsecond)
	}
}

// count is how many calls of a flow had their turn.
func (c *callers) count(flow string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[flow]
}

// slowest is how long one of a hundred calls of a flow waited at least.
func (c *callers) slowest(flow string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	waits := slices.Sorted(slices.Values(c.waits[flow]))
	if len(waits) == 0 {
		return math.MaxInt64
	}
	return waits[len(waits)*99/100]
}

// One tenant floods the limit: the others do not notice. Without shares they wait behind it.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		one, two := b.limiter(reserve.PerSecond(20)), b.limiter(reserve.PerSecond(20))
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		c := newCallers()
		c.call(ctx, 100, "flood", one.Flow("flood"), 0)
		c.call(ctx, 100, "flood", two.Flow("flood"), 0)
		time.Sleep(5 * time.Second)
		for i := range 10 {
			tenant := fmt.Sprint("tenant ", i)
			c.call(ctx, 1, tenant, []*reserve.Limiter{one, two}[i%2].Flow(tenant), time.Second)
		}
		c.busy.Wait()
		total := 0
		for flow, calls := range c.calls {
			total += calls
			if flow != "flood" {
				assert.LessOrEqual(t, c.slowest(flow), 1500*time.Millisecond, flow)
			}
		}
		t.Logf("MEASURE used %.3f, others wait %v", float64(total)/20/20, c.slowest("tenant 0"))
		assert.GreaterOrEqual(t, total, 20*20*97/100)
	})
}

// Calls with IDs of a flow that come back too late, many at once, are in each other's way only: who
// is urgent, and who is of another flow, does not stand behind all of them.
func TestLateCallsOfAFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.PerSecond(50))
		batch := joint(t, l).Flow("batch")
		ctx, stop := context.WithCancel(t.Context())
		var calls []reserve.Call
		for i := range 600 {
			calls = append(calls, reserve.Call{ID: fmt.Sprint(i)})
		}
		for _, joined := range batch.Book(ctx, calls) {
			require.NoError(t, joined.Err)
		}
		var all sync.WaitGroup
		come := func(from, to int) {
			for i := from; i < to; i++ {
				all.Go(func() {
					if r, err := batch.Ask(ctx, fmt.Sprint(i), time.Hour); err == nil {
						_ = r.Wait(ctx)
					}
				})
			}
		}
		come(300, 600) // they could have turns from 6 s on
		time.Sleep(8 * time.Second)
		come(0, 300)
		time.Sleep(500 * time.Millisecond)
		for who, of := range map[string]*reserve.Limiter{"urgent": l.Flow("person").Urgent(), "of another flow": l.Flow("other")} {
			all.Go(func() {
				began := time.Now()
				assert.NoError(t, of.Wait(t.Context()))
				t.Logf("MEASURE %s: %v", who, time.Since(began))
				assert.LessOrEqual(t, time.Since(began), time.Second, who)
			})
		}
		time.Sleep(10 * time.Second)
		stop()
		all.Wait()
	})
}

// Flows have their turns by their weights while both wait, whatever their calls cost, in several
// processes, below limits of their own, and whichever comes first. The first turns of all are not
// shared: calls that find nobody waiting go at once.
func TestWeights(t *testing.T) {
	for name, c := range map[string]struct {
		costs   [2]int
		weight  float64
		several bool
		first   int // which flow comes first
		seconds int
	}{
		"alike":                       {[2]int{1, 1}, 3, false, 0, 15},
		"alike, the lighter first":    {[2]int{1, 1}, 3, false, 1, 15},
		"the heavier has large calls": {[2]int{4, 1}, 10, false, 0, 30},
		"the lighter has large calls": {[2]int{1, 4}, 3, false, 1, 15},
		"below limits of their own":   {[2]int{4, 1}, 3, true, 0, 15},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				ctx, stop := context.WithTimeout(t.Context(), time.Duration(c.seconds)*time.Second)
				defer stop()
				had := newCallers()
				for range 2 {
					client := b.client()
					account := b.on(client, reserve.Config{Name: "account", Group: "g", Limit: reserve.PerSecond(40).Burst(10)})
					tenants := b.on(client, reserve.Config{Name: "tenants", Group: "g", Limit: reserve.PerSecond(400).Burst(100)})
					for k := range 2 {
						i := (k + c.first) % 2
						flow := []string{"much", "little"}[i]
						turns, cost := account.Flow(flow), []int{c.costs[i]}
						if i == 0 {
							turns = turns.Weight(c.weight)
						}
						limits := turns.Limits()
						if c.several {
							limits, cost = append(limits, tenants.For(flow)), append(cost, 1)
						}
						had.call(ctx, 10, flow, joint(t, limits...), 0, cost...)
					}
				}
				counted := func() (much, little int) { return had.count("much") * c.costs[0], had.count("little") * c.costs[1] }
				time.Sleep(time.Second)
				before, beforeLittle := counted()
				had.busy.Wait()
				much, little := counted()
				assert.GreaterOrEqual(t, much+little, 40*c.seconds*97/100)
				much, little = much-before, little-beforeLittle
				t.Logf("MEASURE %d to %d permits", much, little)
				assert.InEpsilon(t, c.weight, float64(much)/float64(little), 0.03)
			})
		})
	}
}

// A person waits for one call among hundreds. Where there are more urgent calls than the limit
// lets through, the others have their half.
func TestUrgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		one, two := b.limiter(reserve.PerSecond(20)), b.limiter(reserve.PerSecond(20))
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		c := newCallers()
		c.call(ctx, 150, "batch", one, 0)
		time.Sleep(5 * time.Second)
		c.call(ctx, 1, "person", two.Urgent(), time.Second)
		time.Sleep(10 * time.Second)
		assert.LessOrEqual(t, c.slowest("person"), time.Second)
		t.Logf("MEASURE a person waits %v", c.slowest("person"))
		before := c.count("batch")
		c.call(ctx, 50, "rush", two.Urgent(), 0)
		began := time.Now()
		c.busy.Wait()
		part := float64(c.count("batch")-before) / 20 / time.Since(began).Seconds()
		t.Logf("MEASURE the others have %.2f", part)
		assert.InDelta(t, 0.5, part, 0.05)
	})
}

// Who waited before anybody named a flow is a flow, too: others have their shares at once, and
// need not wait until all of those had their turns.
func TestSharesBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		one, two := b.limiter(reserve.PerSecond(20)), b.limiter(reserve.PerSecond(20))
		ctx, stop := context.WithTimeout(t.Context(), 7*time.Second+500*time.Millisecond) // turns of half a second were granted before
		defer stop()
		c := newCallers()
		c.call(ctx, 250, "before", one, 0)
		time.Sleep(time.Second)
		before := c.count("before")
		c.call(ctx, 20, "flow", two.Flow("flow"), 0)
		c.call(ctx, 20, "rush", two.Urgent(), 0)
		c.busy.Wait()
		t.Logf("MEASURE %d before, %d of the flow, %d urgent", c.count("before")-before, c.count("flow"), c.count("rush"))
		assert.GreaterOrEqual(t, c.count("rush"), 50)
		assert.GreaterOrEqual(t, c.count("flow"), 30)
	})
}

func TestFlowIsInvalid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newBubble(t).limiter(reserve.PerSecond(1))
		for text, turns := range map[string]*reserve.Limiter{
			"invalid flow: must have 1 to 256 bytes, got 0":         l.Flow(""),
			"invalid flow: must have 1 to 256 bytes, got 257":       l.Flow(strings.Repeat("x", 257)).Weight(3),
			"invalid weight: must be from 1e-06 to 1e+06, got 0":    l.Flow("a").Weight(0),
			"invalid weight: must be from 1e-06 to 1e+06, got -1":   l.Flow("a").Weight(-1).Urgent(),
			"invalid weight: must be from 1e-06 to 1e+06, got NaN":  l.Flow("a").Weight(math.NaN()),
			"invalid weight: must be from 1e-06 to 1e+06, got +Inf": l.Flow("a").Weight(math.Inf(1)),
		} {
			err := turns.Wait(t.Context())
			require.ErrorIs(t, err, reserve.ErrInvalid)
			require.ErrorContains(t, err, text)
		}
	})
}

// A call is of one flow: at all limits of a Joint it is the one that some of them name.
func TestFlowOfAJoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := newBubble(t).group(reserve.PerSecond(1), reserve.PerSecond(1), reserve.PerSecond(1))
		plain := joint(t, limits...)
		want := joint(t, limits[0].Flow("a").Weight(3), limits[1].Flow("a").Weight(3), limits[2].Flow("a").Weight(3))
		require.Equal(t, want, joint(t, limits[0], limits[1].Flow("a").Weight(3), limits[2]))
		require.Equal(t, want, plain.Weight(3).Flow("a"))
		require.NotEqual(t, want, plain.Weight(3).Flow("a").Urgent())
		require.Equal(t, joint(t, limits...), plain, "it has not changed")
		require.Equal(t, limits[0].For("k").Flow("a"), limits[0].Flow("a").For("k"))

		_, err := reserve.All(limits[0].Flow("a"), limits[1].Flow("b"))
		require.ErrorIs(t, err, reserve.ErrInvalid)
		require.ErrorContains(t, err, "must be for calls of one flow")
		_, err = reserve.All(limits[0].Flow("").For("k"))
		require.ErrorContains(t, err, "must have 1 to 256 bytes", "a key does not mend the flow")
		_, err = reserve.All(limits[0].For("").For("k"))
		require.NoError(t, err)
	})
}

func TestUrgentPartIsInvalid(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // nothing is asked of it
	defer client.Close()
	for _, part := range []float64{-1, 0.001, 1, 2, math.NaN(), math.Inf(1)} {
		_, err := reserve.New(client, reserve.Config{Name: "api", Limit: reserve.PerSecond(1), Urgent: part})
		require.ErrorIs(t, err, reserve.ErrInvalid)
		require.ErrorContains(t, err, fmt.Sprintf("Config.Urgent: must be from 0.01 to 0.99, or 0 for 0.5, got %v", part))
	}
}
