package main

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
)

// Two processes visit one host that asks for a longer pause than the per-host
// limit: the strict provider, which knows only that pause, refuses nothing.
func TestCrawlDelayBeatsTheHostLimit(t *testing.T) {
	t.Parallel() // mostly waiting
	client := testRedis(t)
	const delay = 80 * time.Millisecond
	var mu sync.Mutex
	var starts []time.Time
	var wg sync.WaitGroup
	for range 2 {
		process, err := newTurns(client, 1000, 500, 2)
		require.NoError(t, err)
		defer process.close()
		for range 6 {
			wg.Go(func() {
				if !assert.NoError(t, process.wait(t.Context(), "h:80", delay)) {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				starts = append(starts, time.Now())
			})
		}
	}
	wg.Wait()
	slices.SortFunc(starts, time.Time.Compare)
	// The spare permits of the bucket are for goroutines that wake late.
	judge := provider.New(provider.TokenBucket(1/delay.Seconds(), 4))
	for i, at := range starts {
		ok, _ := judge.JudgeAt(at, 1)
		assert.True(t, ok, "call %d came too early", i)
	}
	assert.Len(t, starts, 12)
	assert.GreaterOrEqual(t, starts[11].Sub(starts[0]), 10*delay)
}

// A crawl delay below the per-host limit changes nothing.
func TestHostLimitBeatsAShortCrawlDelay(t *testing.T) {
	turns, err := newTurns(testRedis(t), 100, 4, 1)
	require.NoError(t, err)
	defer turns.close()
	line, _, err := turns.of("h", time.Millisecond)
	require.NoError(t, err)
	assert.Equal(t, 250*time.Millisecond, line.Limit().Interval())
	line, _, err = turns.of("h", time.Second)
	require.NoError(t, err)
	assert.Equal(t, time.Second, line.Limit().Interval())
}

// A turn that is too far away is not waited for, and not booked either.
func TestFarTurnsSendTheTaskBack(t *testing.T) {
	turns, err := newTurns(testRedis(t), 100, 100, 1)
	require.NoError(t, err)
	defer turns.close()
	require.NoError(t, turns.wait(t.Context(), "slow", time.Hour))
	began := time.Now()
	err = turns.wait(t.Context(), "slow", time.Hour)
	var back *putBackError
	require.ErrorAs(t, err, &back)
	assert.Greater(t, back.after, 50*time.Minute)
	assert.Less(t, time.Since(began), patience/2, "it waited")
	assert.False(t, isFailure(err))
	assert.Equal(t, back.after, retryDelay(0, err, nil))
	require.NoError(t, turns.wait(t.Context(), "fast", 0), "one slow host holds up another")
}

func TestCancelledWaitEndsAtOnce(t *testing.T) {
	turns, err := newTurns(testRedis(t), 100, 100, 1)
	require.NoError(t, err)
	defer turns.close()
	require.NoError(t, turns.wait(t.Context(), "h", 5*time.Second))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	began := time.Now()
	assert.ErrorIs(t, turns.wait(ctx, "h", 5*time.Second), context.Canceled)
	assert.Less(t, time.Since(began), 2*time.Second)
}
