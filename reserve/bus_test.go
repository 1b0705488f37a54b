package reserve

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// How far Redis is does not depend on how many lines share a trip.
func TestOnlyTheWayMakesRedisFar(t *testing.T) {
	const micro = time.Microsecond
	type trip struct {
		lines int
		took  time.Duration
	}
	for name, c := range map[string]struct {
		trips []trip
		far   bool
	}{
		"near":                    {[]trip{{1, 200 * micro}}, false},
		"near, and all are there": {[]trip{{mostStops, 2500 * micro}}, false},
		"far":                     {[]trip{{1, 5000 * micro}}, true},
		"far, and all are there":  {[]trip{{mostStops, 6000 * micro}}, true},
		"a slow first trip":       {[]trip{{1, 5000 * micro}, {1, 200 * micro}}, false},
		"one slow trip":           {[]trip{{1, 200 * micro}, {1, 50_000 * micro}}, false},
		"slow when all are there": {[]trip{{1, 200 * micro}, {mostStops, 90_000 * micro}}, false},
	} {
		b := &bus{}
		b.back(1, 1, time.Second) // the connection is opened
		require.False(t, b.far.Load())
		for _, trip := range c.trips {
			b.back(trip.lines, trip.lines, trip.took)
		}
		require.Equal(t, c.far, b.far.Load(), name)
	}
}
