package world

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// drawPlans draws a history in which the plan of a limit becomes one of another kind, up to three times. It returns nil if
// the seed has slots, several limits, or a loss of data: nobody knows then what was used.
func drawPlans(seed uint64) *plan {
	p := draw(seed)
	if len(p.limits) > 1 || p.limits[0].limit.Kind() == reserve.KindSlots || p.policy == reserve.PolicyLocal || p.policy == reserve.PolicyOpen ||
		p.has(slices.Concat(ofTheServer, ofMoments, []string{set, reset, other})...) ||
		slices.ContainsFunc(p.loads, func(l load) bool { return slices.ContainsFunc(l.parts, func(of part) bool { return of.key != "" }) }) ||
		slices.ContainsFunc(p.processes, func(q processPlan) bool { return q.version != "" }) {
		return nil
	}
	d := &drawer{p.source("plans", 0), p}
	kinds := slices.DeleteFunc([]reserve.Kind{reserve.KindPaced, reserve.KindWarmingUp, reserve.KindQuota, reserve.KindRolling},
		func(k reserve.Kind) bool { return k == p.limits[0].limit.Kind() })
	d.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	for _, kind := range kinds[:1+d.IntN(3)] {
		p.events = append(p.events, event{at: 2*time.Second + d.moment(), what: replan, process: d.IntN(len(p.processes)), to: d.limitOf(kind).String()})
	}
	p.until = max(p.until, p.calm()+3*time.Second)
	return p
}

// The laws hold while the kind of a plan changes.
func TestPlansOfAnotherKind(t *testing.T) {
	most := uint64(200)
	if raceDetector {
		most = 20
	}
	first, played := uint64(1), 0
	if text := os.Getenv("FLEETPACE_WORLD_SEED"); text != "" {
		first, _ = strconv.ParseUint(text, 10, 64)
		most = first
	}
	for seed := first; seed <= most; seed++ {
		p := drawPlans(seed)
		if p == nil {
			continue
		}
		played++
		w := play(p, first == most, nil)
		if first == most {
			t.Log(p)
			w.tell(t)
		}
		if len(w.violations) > 0 {
			t.Errorf("seed %d: %v", seed, w.violations[0])
		}
	}
	t.Logf("%d histories", played)
}
