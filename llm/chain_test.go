package llm_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/llm"
)

// picked is which Set of a chain a call got that began at a moment.
type picked struct {
	began time.Duration
	pick  int
}

// picks makes calls of a chain for a time, one of 1,000 tokens each so often, and returns what they got in the order in
// which they began.
func picks(t *testing.T, chain *llm.Chained, each, lasts time.Duration) []picked {
	t.Helper()
	start := time.Now()
	got := make([]picked, lasts/each)
	var calls sync.WaitGroup
	for i := range got {
		calls.Go(func() {
			began := time.Since(start)
			pick, call, err := chain.Acquire(t.Context(), llm.Estimate{Input: 1000}, 20*time.Second)
			if assert.NoError(t, err) {
				time.Sleep(time.Second)
				call.Done()
				got[i] = picked{began, pick}
			}
		})
		time.Sleep(each)
	}
	calls.Wait()
	return got
}

func newChain(t *testing.T, b *bubble.Bubble, first int) (preferred *llm.Set, chain *llm.Chained) {
	t.Helper()
	preferred = newSet(t, b, llm.Config{Account: "first", Preset: llm.Gemini("a", 0, first)})
	return preferred, llm.Chain(preferred, newSet(t, b, llm.Config{Account: "second", Preset: llm.Gemini("b", 0, 600_000)}))
}

// Scenario 10: a fleet is back at the preferred account within a minute after it serves calls again, whenever that is.
func TestChainReturns(t *testing.T) {
	for _, stopped := range []time.Duration{70 * time.Second, 4*time.Minute + 17*time.Second} { // after five minutes, a call would probe
		synctest.Test(t, func(t *testing.T) {
			first, chain := newChain(t, bubble.New(t), 120_000)
			const stops = 30*time.Second - time.Millisecond
			time.AfterFunc(stops, func() { assert.NoError(t, first.Stop(t.Context(), time.Time{}, "credits")) })
			time.AfterFunc(stops+stopped, func() { assert.NoError(t, first.Resume(t.Context())) })
			var back time.Duration
			for _, p := range picks(t, chain, time.Second, 8*time.Minute) {
				switch {
				case p.began < stops-2*time.Second:
					assert.Zero(t, p.pick)
				case p.began >= stops && p.began < stops+stopped:
					assert.Equal(t, 1, p.pick)
				case p.pick == 0 && back == 0 && p.began > stops:
					back = p.began - stops - stopped
				case back > 0:
					assert.Zero(t, p.pick, p.began)
				}
			}
			t.Logf("back after %v", back)
			require.Positive(t, back)
			assert.LessOrEqual(t, back, time.Minute)
		})
	}
}

// Scenario 10: where calls come faster than the preferred account serves them, others go to the next one. A fleet leaves
// the preferred account at most once a minute, also while calls still wait there.
func TestChainDoesNotFlap(t *testing.T) {
	for _, each := range []time.Duration{time.Second / 2, time.Second / 5} { // the preferred account serves one a second
		synctest.Test(t, func(t *testing.T) {
			_, chain := newChain(t, bubble.New(t), 60_000)
			var left []time.Duration
			before := 0
			for _, p := range picks(t, chain, each, 6*time.Minute) {
				if p.pick == 1 && before == 0 {
					left = append(left, p.began)
				}
				before = p.pick
			}
			t.Logf("left the preferred account after %v", left)
			require.GreaterOrEqual(t, len(left), 2)
			for i := range left[1:] {
				assert.GreaterOrEqual(t, left[i+1]-left[i], time.Minute)
			}
		})
	}
}

// Scenario 10: others keep the preferred account busy, so that a call would wait for more than 20 s. The chain looks at
// it once a minute and stays away, and is back within a minute after the others have gone.
func TestChainAvoidsAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, chain := newChain(t, bubble.New(t), 60_000)
		const ends = 4 * time.Minute
		ctx, cancel := context.WithTimeout(t.Context(), ends)
		defer cancel()
		var others sync.WaitGroup
		for range 60 {
			others.Go(func() {
				for {
					call, err := first.Acquire(ctx, llm.Estimate{Input: 1000})
					if err != nil {
						return
					}
					call.Done()
				}
			})
		}
		time.Sleep(10 * time.Second)
		var back time.Duration
		for _, p := range picks(t, chain, 2*time.Second, ends+time.Minute) {
			if p.pick == 0 && back == 0 {
				back = p.began - ends + 10*time.Second
			}
			assert.Equal(t, back != 0, p.pick == 0)
		}
		others.Wait()
		t.Logf("back %v after the others", back)
		assert.InDelta(t, 30, back.Seconds(), 30)
	})
}
