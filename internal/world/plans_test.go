package world

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
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
	most := redistest.Budget[uint64](200, 50)
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

// Plans of many customers change at random, also to other kinds, while 52 calls wait at some. Three processes of four
// read each plan later than the first one. The laws hold, the calls that wait follow within a second, and nothing is kept of
// customers two minutes after their last calls. FLEETPACE_LONG=1 plays 10,000 customers for half a minute.
func TestPlansOfManyCustomers(t *testing.T) {
	for name, loss := range map[string]time.Duration{"strict": 0, "data is lost": 20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			customers, perSecond, busy, lasts := 100, 30, 2, 6*time.Second
			if os.Getenv("FLEETPACE_LONG") != "" {
				customers, perSecond, busy, lasts = 10_000, 1000, 8, 30*time.Second
			}
			if loss > 0 {
				loss = lasts * 2 / 3
			}
			p := &plan{seed: 37, policy: reserve.PolicyWait, clock: 5 * time.Second, until: lasts}
			p.limits = []limitPlan{{name: "api", limit: reserve.PerSecond(20).Burst(2)}}
			for range 4 {
				p.processes = append(p.processes, processPlan{trip: time.Millisecond, timeout: 500 * time.Millisecond})
			}
			const idle = 64
			p.loads = []load{{callers: idle, process: anybody, parts: []part{{cost: 1}}, keys: customers, think: idle * time.Second / time.Duration(perSecond)}}
			kinds := []string{"10/s burst 3", "40/s", "80/s burst 5", "25/s burst 2", "30/minute quota", "9/3s rolling", "20/s warmup 1s"}
			d := &drawer{p.source("customers", 0), p}
			for n := range busy {
				key, kind := fmt.Sprint("busy", n), 4+n%3
				p.loads = append(p.loads, load{callers: 52, process: anybody, parts: []part{{key: key, cost: 1}}})
				for at := d.moment(); at < lasts-1500*time.Millisecond; at += 2*time.Second + d.moment()/2 {
					if loss == 0 || at < loss-1500*time.Millisecond || at > loss+2*time.Second {
						p.events = append(p.events, event{at: at, what: replan, process: anybody, by: 300 * time.Millisecond, key: key, to: kinds[kind]})
						kind = (kind + 1 + d.IntN(len(kinds)-1)) % len(kinds) // another one
					}
				}
			}
			for i := range 3 * len(kinds) {
				p.events = append(p.events, event{at: time.Duration(i) * 20 * time.Millisecond, lasts: lasts - time.Second, what: replan, process: anybody, keys: customers, to: kinds[i%len(kinds)]})
			}
			if loss > 0 {
				p.events = append(p.events, event{at: loss, what: flush, process: anybody})
			}
			p.expects = []expectation{{follow: -1}} // turns are recorded
			w, keys := newWorld(p), 0
			w.most = math.MaxInt
			w.promised = lasts + 4*time.Minute // until then calls wait for quotas, and two minutes more
			w.at(lasts, func() { keys = len(w.server.Data) })
			w.at(loss+2*time.Second, func() { // the newest plans are in force, again
				newest := map[string]setting{}
				for _, e := range p.events {
					if t := termsOf(w.limitOf(cmp.Or(e.to, "1/s"))); e.key != "" && e.at < loss {
						newest[e.key] = setting{a: t.A, b: t.B}
					}
				}
				for key, is := range newest {
					was := w.byPart[part{key: key}].sets
					is.at = was[len(was)-1].at
					require.Equal(t, is, was[len(was)-1], key)
				}
			})
			inForce := func(e event) bool { // the plan of an event
				t := termsOf(w.limitOf(e.to))
				m := w.byPart[part{key: e.key}]
				i := slices.IndexFunc(m.sets, func(s setting) bool { return s.at >= e.at && s.a == t.A && s.b == t.B })
				return i >= 0 && m.sets[i].at <= e.at+time.Second
			}
			w.playOn()
			require.Empty(t, w.violations)
			require.Less(t, keys, 10+len(w.meters)*11/10)
			require.Less(t, len(w.server.Data), 10)
			for _, e := range p.events {
				require.True(t, e.key == "" || inForce(e), "within a second: %v", e)
			}
			overtook, last := 0, map[string]time.Duration{}
			for _, turn := range w.turns {
				key := turn.parts[0].key
				if turn.came < last[key] {
					overtook++
				}
				last[key] = turn.came
			}
			most := time.Duration(0)
			for _, m := range w.meters {
				lost := time.Duration(0)
				for _, l := range m.lost {
					lost += l.lost
				}
				most = max(most, lost)
			}
			t.Logf("%d customers, %d keys, %d turns, %d versions of plans: %d calls had their turns after a later one, the permits of %v were lost at most",
				len(w.meters), keys, len(w.turns), w.versions, overtook, most.Round(time.Millisecond))
			require.LessOrEqual(t, overtook, len(w.turns)/20)
			require.True(t, loss > 0 || most < lasts*3/100, most)
		})
	}
}
