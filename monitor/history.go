package monitor

import (
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/fleet"
)

// moment is what a limit did in one span of the history.
type moment struct {
	at       int64   // the number of the span, since 1970
	looks    float64 // how many readings it is the mean of
	used, of float64 // what the busiest key used, and of how much: see fleet.Busiest
	waiting  float64 // the most
	paused   bool
	set      bool
}

const (
	step    = 20 * time.Second // the length of a span of the last hour, and the time between two readings without viewers
	long    = 8 * time.Minute  // the length of a span of the last day
	history = 180              // how many spans of each length are remembered for each limit
)

// spanOf is the number of the span that holds a moment.
func spanOf(t time.Time, step time.Duration) int64 { return t.UnixMilli() / step.Milliseconds() }

// remember adds a reading to the history of each limit, and forgets limits that are gone.
func remember(past map[string][]moment, lines []fleet.Line, step time.Duration, now time.Time) map[string][]moment {
	kept := make(map[string][]moment, len(lines))
	for i := range lines {
		l := &lines[i]
		seen := moment{at: spanOf(now, step), looks: 1, used: l.Busiest.Used, of: l.Busiest.Of, waiting: float64(l.Waiting + l.Booked), paused: l.Paused, set: l.Set}
		values := slices.Clone(past[l.ID()]) // viewers read the history of the last reading
		if last := len(values) - 1; last >= 0 && values[last].at == seen.at {
			m := &values[last]
			m.used = (m.used*m.looks + seen.used) / (m.looks + 1)
			m.looks, m.of = m.looks+1, seen.of
			m.waiting, m.paused, m.set = max(m.waiting, seen.waiting), m.paused || seen.paused, m.set || seen.set
		} else {
			values = append(values, seen)
		}
		kept[l.ID()] = values[max(0, len(values)-history):]
	}
	return kept
}
