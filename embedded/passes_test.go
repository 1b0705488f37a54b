package embedded

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A tick that comes late is made up for, and a stall is not: by a tick at most.
func TestTimePassesEvenly(t *testing.T) {
	start := time.Unix(1000, 0)
	last, passed := start, time.Duration(0)
	pass := func(now time.Duration) time.Duration {
		d := passes(last, start.Add(now))
		last, passed = last.Add(d), passed+d
		return d
	}
	const late = 5 * time.Millisecond
	for n := range 100 {
		pass(time.Duration(n+1)*tick + time.Duration(n%2)*late)
	}
	require.InDelta(t, 100*tick, passed, float64(late), "no time is lost to ticks that come late")
	require.Equal(t, tick, pass(110*tick), "after a stall of ten")
	require.Equal(t, tick, pass(111*tick))
}
