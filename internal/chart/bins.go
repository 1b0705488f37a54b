package chart

import (
	"time"

	"github.com/fleetpace/fleetpace/internal/provider"
)

// maxBins is the most bars that a reader can still tell apart.
const maxBins = 400

// bins is a history of calls, counted per bin.
type bins struct {
	bin      time.Duration
	start    time.Duration // the beginning of the first bin, relative to the first call
	accepted []int
	refused  []int
}

// count puts calls, which are in order of time, into bins. It widens the bins if there would be too many.
func count(calls []provider.Call, bin time.Duration, perSecond float64) bins {
	first := calls[0].At
	length := calls[len(calls)-1].At.Sub(first)
	for i := 0; length/bin >= maxBins; i++ {
		if i%3 == 1 {
			bin += bin / 2 * 3 // 2 to 5
		} else {
			bin *= 2 // 1 to 2, 5 to 10
		}
	}
	// The first bin starts half an interval before the first call. Otherwise
	// evenly spaced calls lie exactly on the borders, and a jitter of
	// microseconds would move them from bar to bar.
	before := min(bin/2, time.Duration(0.5e9/perSecond))
	n := int((length+before)/bin) + 1
	b := bins{bin: bin, start: -before, accepted: make([]int, n), refused: make([]int, n)}
	for _, c := range calls {
		i := int((c.At.Sub(first) + before) / bin)
		if c.Refused {
			b.refused[i] += c.N
		} else {
			b.accepted[i] += c.N
		}
	}
	return b
}

func (b bins) totals() (accepted, refused int) {
	for i := range b.accepted {
		accepted += b.accepted[i]
		refused += b.refused[i]
	}
	return accepted, refused
}

func (b bins) tallest() int {
	tallest := 0
	for i := range b.accepted {
		tallest = max(tallest, b.accepted[i]+b.refused[i])
	}
	return tallest
}
