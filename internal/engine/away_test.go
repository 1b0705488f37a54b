package engine_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// While Redis is away each process lets its share through; when it is back all of the limit
// is used again, and the provider refuses none.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		judge := strict(50, 5)
		var groups []*sync.WaitGroup
		for range 3 {
			p := b.process(time.Millisecond)
			groups = append(groups, p.closed(10, seconds(30), one(p.paced("", 50, 5)), judge, 0))
		}
		time.Sleep(seconds(5))
		b.mini.SetError("LOADING Redis is loading the dataset in memory")
		time.Sleep(seconds(2))
		before := judge.made()
		time.Sleep(seconds(8))
		require.InDelta(t, 0.9*50*8, judge.made()-before, 20, "the shares of all")
		b.mini.SetError("")
		time.Sleep(seconds(2))
		before = judge.made()
		time.Sleep(seconds(10))
		require.InDelta(t, 500, judge.made()-before, 15, "all of the limit again")
		for _, g := range groups {
			g.Wait()
		}
		t.Logf("refused %d, at most %v too early", judge.refused, judge.worst)
		require.Zero(t, judge.refused, judge.worst)
	})
}

// A turn that a process gives itself is used at once, or another one is asked for: calls that
// are held do not save up turns.
func TestTurnsWithoutRedisAreNotSavedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		p := b.process(time.Millisecond)
		need := one(p.paced("", 50, 1))
		_, err := p.Wait(t.Context(), need)
		require.NoError(t, err)
		b.mini.SetError("LOADING Redis is loading the dataset in memory")
		judge := strict(50, 7) // what comes in a tenth of a second
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				h, err := p.Hold(t.Context(), need, time.Time{})
				if err == nil {
					time.Sleep(time.Until(time.Date(2000, 1, 1, 0, 0, 20, 0, time.UTC))) // no handler is free
					_, err = h.Wait(t.Context())
				}
				if err != nil {
					t.Error(err)
				}
				judge.call()
			})
		}
		group.Wait()
		require.Zero(t, judge.refused, judge.worst)
	})
}

// Redis is back when nobody waits any more, and nothing was used without it.
func TestBackWhenNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		p := b.process(time.Millisecond)
		_, err := p.Wait(t.Context(), one(p.paced("", 1, 1)))
		require.NoError(t, err)
		b.mini.SetError("LOADING Redis is loading the dataset in memory")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // it gives up before Redis counts as away
		defer cancel()
		_, err = p.Wait(ctx, one(p.paced("other", 1, 1)))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(5 * time.Second)
		b.mini.SetError("")
		time.Sleep(5 * time.Second)
		_, err = p.Wait(t.Context(), one(p.paced("", 1, 1)))
		require.NoError(t, err)
	})
}
