package outage

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Timers are late. That makes calls late, but no fewer of them.
func TestLateTimersCostNoCalls(t *testing.T) {
	const calls, step, late = 100, 100 * time.Millisecond, 5 * time.Millisecond
	start := time.Now()
	l := NewShare(float64(time.Second/step), 1, start)
	now, last := start, start
	for range calls {
		at := l.At(now, 1)
		l.Plan(at)
		require.WithinDuration(t, last.Add(step), at, time.Microsecond)
		last, now = at, at.Add(late)
		require.Equal(t, now, l.At(now, 1), "it is asked again before it is taken")
		l.Take(now, 1)
	}

	// One that is too late for its turn begins anew.
	at := l.At(now, 1)
	l.Plan(at)
	now = at.Add(2 * punctual)
	l.Take(now, 1)
	require.WithinDuration(t, now.Add(step), l.At(now, 1), time.Microsecond)
}
