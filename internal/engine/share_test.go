package engine

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Timers are late. That makes calls late, but no fewer of them, and no more.
func TestLateTimersCostNoCalls(t *testing.T) {
	for _, burst := range []int{1, 2, 10} {
		t.Run(strconv.Itoa(burst), func(t *testing.T) { lateTimersCostNoCalls(t, burst) })
	}
}

func lateTimersCostNoCalls(t *testing.T, burst int) {
	const calls, step, late = 100, 100 * time.Millisecond, 5 * time.Millisecond
	start := time.Unix(1_000_000, 0)
	l := newShare(float64(time.Second/step), burst, start)
	now, last := start, start
	for range calls {
		at := l.at(now, 1)
		l.planned = at
		require.WithinDuration(t, last.Add(step), at, time.Microsecond)
		last, now = at, at.Add(late)
		require.Equal(t, now, l.at(now, 1), "it is asked again before it is taken")
		l.take(now, 1)
	}

	// With a burst of 1, a call that is too late for its turn begins anew. A larger bucket keeps what came
	// meanwhile.
	at := l.at(now, 1)
	l.planned = at
	now = at.Add(2 * punctual)
	l.take(now, 1)
	kept := 2 * punctual
	if burst == 1 {
		kept = 0
	}
	require.WithinDuration(t, now.Add(step-kept), l.at(now, 1), time.Microsecond)
}
