package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Timers are late. That makes calls late, but no fewer of them.
func TestLateTimersCostNoCalls(t *testing.T) {
	const calls, step, late = 100, 100 * time.Millisecond, 5 * time.Millisecond
	start := time.Unix(1_000_000, 0)
	l := newShare(float64(time.Second/step), 1, start)
	now, last := start, start
	for range calls {
		at := l.at(now, 1)
		l.planned = at
		require.WithinDuration(t, last.Add(step), at, time.Microsecond)
		last, now = at, at.Add(late)
		require.Equal(t, now, l.at(now, 1), "it is asked again before it is taken")
		l.take(now, 1)
	}

	// One that is too late for its turn begins anew.
	at := l.at(now, 1)
	l.planned = at
	now = at.Add(2 * punctual)
	l.take(now, 1)
	require.WithinDuration(t, now.Add(step), l.at(now, 1), time.Microsecond)
}
