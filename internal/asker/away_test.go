package asker_test

import (
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
