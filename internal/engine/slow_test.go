package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/engine"
)

// A reply that is late costs a slow limit no turn: the first call on a key that nobody used
// is made at once, and those behind it follow at the limit's pace.
func TestLateReplyOfASlowLimit(t *testing.T) {
	for _, every := range []time.Duration{10 * time.Second, time.Minute, time.Hour, 24 * time.Hour} {
		for _, late := range []time.Duration{25, 40, 150, 800} {
			late *= time.Millisecond
			for _, behind := range []int{0, 20} {
				t.Run(fmt.Sprint(every, late, behind), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						p := newBubble(t).process(0)
						perSecond := 1 / every.Seconds()
						_, err := p.Wait(t.Context(), one(p.paced("other", 100, 1))) // now the way is known
						require.NoError(t, err)
						time.Sleep(time.Second)

						need, judge := one(p.paced("", perSecond, 1)), strict(perSecond, 1)
						p.delay.Store(int64(late))
						ctx, cancel := context.WithCancel(t.Context())
						began := time.Now()
						var all sync.WaitGroup
						for range behind + 1 {
							all.Go(func() {
								if _, err := p.Wait(ctx, need); err == nil {
									judge.call()
								}
							})
						}
						time.Sleep(2 * time.Second)
						require.Equal(t, 1, judge.made(), "the first one was made")
						require.EqualValues(t, 1, p.bubble.seen[engine.Lapsed].Load(), "its turn was over when the reply came")
						if every <= time.Minute {
							time.Sleep(time.Duration(behind) * every)
							require.Equal(t, behind+1, judge.made(), "and those behind it")
						}
						cancel()
						all.Wait()
						require.Zero(t, judge.refused)
						require.Less(t, time.Since(began), time.Duration(behind)*every+3*time.Second)
					})
				})
			}
		}
	}
}

// A process that was silent for so long that it counted as dead comes back: no data was lost for
// that, and a limit that nobody has used lets its call through.
func TestBackFromTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		p, other := b.process(time.Millisecond), b.process(time.Millisecond)
		over := time.Now().Add(20 * time.Second)
		groups := []*sync.WaitGroup{ // both have something to do
			p.closed(1, 20*time.Second, one(p.paced("", 1, 1)), &provider{}, 0),
			other.closed(1, 20*time.Second, one(other.paced("", 1, 1)), &provider{}, 0),
		}
		time.Sleep(5 * time.Second)
		p.way.Store(int64(4 * time.Second))
		time.Sleep(10 * time.Second)
		p.way.Store(int64(time.Millisecond))
		time.Sleep(time.Until(over.Add(-time.Second)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := p.Wait(ctx, one(p.paced("fresh", 1.0/3600, 1)))
		require.NoError(t, err)
		for _, g := range groups {
			g.Wait()
		}
	})
}
