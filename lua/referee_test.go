package lua

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/provider"
)

// judge lets the strict provider judge the calls of a history, in true time,
// and returns how many it refuses.
//
// In these it must refuse none: histories without trouble, with a clock that
// steps back to before the last call or forward where the caller knows the clock,
// and with data that is lost while the only process remembers the line. In the
// others it is given as much more burst as the trouble can cost, and must refuse
// none either:
//
//	clock steps forward by d,  d / interval
//	the first who calls does
//	not know the clock, or d
//	is up to a second
//	clock steps back by d, but d / interval: nobody can tell it from a clock that
//	not to the last call       stood still
//	data lost                  the permits that others were given since the process
//	                           that calls first had its last reply
//	data lost, the first who   burst + bound / interval, each time: the new line
//	calls knows nothing        starts full while final tickets of the old one
//	                           are still to be called
//	rolled back                as with data that was lost; where the first who calls
//	                           knows nothing, what was given since. Also the IDs that
//	                           were used anew since: they are known again
//	permits spent without the  those that are to be charged, until then and until
//	line                       the line has let their time pass; and for good those
//	                           that are not, or that idle ones may pay for
//	paused or resumed          what those hold who do not hear of it
//	rate changes               bound / the shorter interval, each time: tickets
//	                           that were final before keep their moment; and the
//	                           bucket is as large as the largest burst (callers
//	                           are on time in these histories)
//
// Calls are also forgiven one and a half microseconds: replies carry waits in
// whole micros, rounded up, so that a call may come up to one too late for a
// bucket of 1; and a double holds the Unix time in steps of a quarter. They are
// forgiven one more where a caller of quick, or one whose turn has moved, rounds up what
// was rounded up.
func (h *history) judge() (refused int, first call) {
	slices.SortStableFunc(h.calls, func(a, b call) int { return cmp.Compare(a.at, b.at) })

	extra := 0.0 // permits
	shortest := h.rates[0].intervalMicros
	for i := 1; i < len(h.rates); i++ {
		was, is := h.rates[i-1].intervalMicros, h.rates[i].intervalMicros
		shortest = min(shortest, is)
		extra += (h.bound + 2) / min(was, is)
	}
	extra += (h.jumps + h.slow) / shortest
	extra += float64(h.losses) * (float64(h.maxBurst) + h.bound/shortest)
	extra += h.unknown + h.mostOwed + h.unpaid + h.unheard
	extra += 1.5 / shortest
	if h.counts["quicks"] > 0 {
		extra += 1 / shortest
	}
	if h.counts["pauses"]+h.counts["resumes"] > 0 {
		extra += 1 / shortest
	}
	extra = min(extra, 1e12) // a day that was skipped, at a permit per microsecond, is more than any history uses

	// The provider counts in whole permits, so a permit is cut into grains.
	const grains = 1e6
	burst := int(float64(h.maxBurst)*grains + math.Ceil(extra*grains))
	perSecond, moment := grains*1e6/shortest, func(at int64) time.Time {
		return time.UnixMicro(at)
	}
	if len(h.rates) > 1 {
		// A second for each permit that the line let pass: on this clock its
		// rate never changes.
		perSecond, moment = grains, h.permitClock()
	}

	p := provider.New(provider.TokenBucket(perSecond, burst))
	for _, c := range h.calls {
		if ok, _ := p.JudgeAt(moment(c.at), int(c.cost)*grains); !ok {
			if refused++; refused == 1 {
				first = c
			}
		}
	}
	return refused, first
}

// permitClock returns a clock for calls in order of time, that goes on by a
// second for each permit that the line let pass.
func (h *history) permitClock() func(at int64) time.Time {
	var last int64
	var now time.Time
	return func(at int64) time.Time {
		permits := 0.0
		for i, r := range h.rates {
			from, until := max(last, r.from), at
			if i+1 < len(h.rates) {
				until = min(at, h.rates[i+1].from)
			}
			permits += float64(max(0, until-from)) / r.intervalMicros
		}
		// More than fills any bucket is as good as what does.
		now = now.Add(time.Duration(min(permits, 1e6) * 1e9))
		last = at
		return now
	}
}
