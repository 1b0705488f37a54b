package lua

import (
	"fmt"
	"math"
	"slices"

	"github.com/fleetpace/fleetpace/internal/model"
)

// pauseOfAll is a pause of which everybody heard at once, in true time.
type pauseOfAll struct {
	from, until    int64
	intervalMicros float64
}

// pauseOrResume is what a process does to which the provider said when to come back, or
// somebody who knows better.
func (h *history) pauseOrResume() {
	p, _ := h.ready()
	if h.rng.IntN(3) == 0 {
		h.counts["resumes"]++
		h.send(false, &message{from: p, run: func(_ *message, c model.Caller) (model.Reply, func(bool)) {
			reply := h.player.resume(h.clock(), h.limit, c)
			h.endPause()
			h.hear(reply, func() bool { return true })
			return reply, func(bool) {}
		}})
		return
	}
	micros := h.limit.IntervalMicros * 20 * h.rng.Float64() * h.rng.Float64()
	all := h.rng.IntN(2) == 0
	h.counts["pauses"]++
	h.send(false, &message{from: p, run: func(_ *message, c model.Caller) (model.Reply, func(bool)) {
		reply := h.player.pause(h.clock(), h.limit, c, micros)
		h.hear(reply, func() bool { return all || h.rng.IntN(2) == 0 })
		h.endPause()
		if all && h.trouble == (trouble{}) {
			h.pauses = append(h.pauses, pauseOfAll{h.now, h.now + reply.PauseMicros, h.limit.IntervalMicros})
		}
		return reply, func(bool) {}
	}})
}

// endPause lets what holds for the pause so far end now.
func (h *history) endPause() {
	if n := len(h.pauses); n > 0 {
		h.pauses[n-1].until = min(h.pauses[n-1].until, h.now)
	}
}

// hear tells those who hold final tickets that these are due at another time. Those
// who do not hear it call as they were told.
func (h *history) hear(reply model.Reply, hears func() bool) {
	h.gens[reply.Epoch] = reply.Gen
	for _, t := range h.tickets {
		if t.state != held || t.epoch != reply.Epoch {
			continue
		}
		if !hears() {
			h.counts["unheard"]++
			h.unheard += float64(t.cost)
			h.pauses = nil
			continue
		}
		due := func(e int64) int64 {
			ahead := float64(e-reply.Final) * reply.Limit.IntervalMicros
			return h.now + reply.ReachMicros + int64(math.Ceil(ahead))
		}
		if start := due(t.number - t.cost + 1); reply.PauseMicros > 0 && start < h.now+reply.PauseMicros {
			t.state = refused // its turn is gone
			continue
		}
		t.callAt = max(h.now, due(t.number))
	}
}

// duringPauses checks that no call was made in a pause, and that those after it came at
// the pace of the rate: the bucket was empty when it ended.
func (h *history) duringPauses() error {
	calls := slices.Clone(h.calls)
	slices.SortStableFunc(calls, func(a, b call) int { return int(a.at - b.at) })
	for _, p := range h.pauses {
		var after int64
		for _, c := range calls {
			if c.at <= p.from {
				continue
			}
			h.counts["paused_calls"]++
			if c.at < p.until {
				return fmt.Errorf("a call at %d was made in the pause from %d to %d", c.at-startMicros, p.from-startMicros, p.until-startMicros)
			}
			after += c.cost
			if most := 1 + (float64(c.at-p.until)+2)/p.intervalMicros; float64(after) > most {
				return fmt.Errorf("after the pause until %d %d permits were used by %d, %v are the most",
					p.until-startMicros, after, c.at-startMicros, most)
			}
		}
	}
	return nil
}
