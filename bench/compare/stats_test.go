package main

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQuantile(t *testing.T) {
	values := []float64{4, 1, 3, 2}
	require.Equal(t, 2.5, quantile(values, 0.5))
	require.Equal(t, 1.0, quantile(values, 0))
	require.Equal(t, 4.0, quantile(values, 1))
	require.Equal(t, 3.0, quantile([]float64{5, 3, 1}, 0.5))
	require.Equal(t, 7.0, quantile([]float64{7}, 0.99))
	require.Equal(t, []float64{4, 1, 3, 2}, values, "they stay as they are")
	require.Equal(t, spread{median: 2.5, min: 1, max: 4}, spreadOf(values))
}

func TestSignificant(t *testing.T) {
	for v, want := range map[float64]float64{
		0: 0, 1: 1, 0.1: 0.1, 1234567.8: 1234570, 0.0012345678: 0.00123457, math.Inf(1): 0,
	} {
		require.Equal(t, want, significant(v))
	}
	require.Zero(t, significant(math.NaN()))
}

func TestReplay(t *testing.T) {
	const ms = time.Millisecond
	even := []time.Duration{3 * ms, 0, 2 * ms, 1 * ms} // in any order
	require.Zero(t, refusals(even, 1000, 1))
	require.Equal(t, 1, burstNeeded(even, 1000))

	// Two of them come together: a strict bucket of one refuses one.
	early := []time.Duration{0, ms, ms, 3 * ms}
	require.Equal(t, 1, refusals(early, 1000, 1))
	require.Equal(t, 2, burstNeeded(early, 1000))
	require.Zero(t, refusals(early, 1000, 2))

	// A bucket that was full for long has no more than its burst.
	late := []time.Duration{0, time.Hour, time.Hour, time.Hour}
	require.Equal(t, 1, refusals(late, 1000, 2))
	require.Equal(t, 3, burstNeeded(late, 1000))
	require.Zero(t, burstNeeded(nil, 1000))
}

func TestOpenLoopMoments(t *testing.T) {
	moments := poisson(1, 2000, 10*time.Second)
	require.Equal(t, moments, poisson(1, 2000, 10*time.Second))
	require.NotEqual(t, moments, poisson(2, 2000, 10*time.Second))
	require.InDelta(t, 20_000, len(moments), 600) // four standard deviations
	require.IsNonDecreasing(t, moments)
	require.Less(t, moments[len(moments)-1], 10*time.Second)

	squeezed := bursts(moments, 500*time.Millisecond, 100*time.Millisecond, 50*time.Millisecond)
	require.Len(t, squeezed, len(moments))
	require.IsNonDecreasing(t, squeezed)
	for _, at := range squeezed {
		within := (at - 50*time.Millisecond) % (500 * time.Millisecond)
		require.Less(t, within, 100*time.Millisecond)
	}
}

func TestOpenLoopDoesNotWaitForAnswers(t *testing.T) {
	synctest.Test(t, openLoopDoesNotWaitForAnswers)
}

func openLoopDoesNotWaitForAnswers(t *testing.T) {
	moments := poisson(3, 1000, 100*time.Millisecond)
	began := time.Now()
	all, err := openLoop(t.Context(), func(ctx context.Context) error { return rest(ctx, 200*time.Millisecond) }, began, moments)
	require.NoError(t, err)
	require.Len(t, all, len(moments))
	for i, a := range all {
		require.Equal(t, 200*time.Millisecond, a.wait)
		require.GreaterOrEqual(t, a.at, moments[i]+200*time.Millisecond)
		require.LessOrEqual(t, a.at, moments[i]+200*time.Millisecond+tick)
	}

	broken := errors.New("broken")
	_, err = openLoop(t.Context(), func(context.Context) error { return broken }, time.Now(), moments)
	require.ErrorIs(t, err, broken)
}
