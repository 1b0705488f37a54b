package lua

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// Redis's clock steps back, and then ahead. A process that has had no answer between the steps is the first to ask
// after them. It is answered as if there had been no step.
func TestAStepAheadBehindAStepBack(t *testing.T) {
	client := still(t)
	limits := map[string]queuemodel.Limit{
		"paced": {Kind: "p", A: 1e5, B: 10}, "paced, burst 1": {Kind: "p", A: 1e6, B: 1}, "rolling": {Kind: "r", A: 10, B: 2e6}, "warming up": {Kind: "w", A: 1e5, B: 1e6},
	}
	for name, limit := range limits {
		for _, back := range []float64{1.5e6, 5e6, 114e6} {
			for k, ahead := range []float64{1.5e6, 28e6, 3000e6} {
				rest := []float64{1e5, 1e5, 1.4e6}[k] // since the last call before the steps; the caller was the last to use the limit
				t.Run(fmt.Sprint(name, " ", back/1e6, " ", ahead/1e6), func(t *testing.T) {
					play := func(back, ahead float64) (waits []float64) {
						s := &server{client: client, ctx: t.Context(), ask: Ask, keys: Keys(redistest.Prefix(t), "", "api", limit.Kind, "")}
						real, offset := float64(startMicros), 0.0
						known := map[string]*queuemodel.Limit{}
						clocks := map[string]float64{} // Redis's clock less the real time, by process
						ask := func(process string, count int) {
							l, asked := known[process], known[process] != nil
							if !asked {
								first := limit
								l, clocks[process] = &first, offset
								known[process] = l
							}
							l.Clock = real + clocks[process]
							who := queuemodel.Caller{Now: real + offset, Horizon: 2e5, Near: 5000, Grace: 300000, Run: "run", Process: process, Serial: len(waits) + 1}
							heads, answers, err := s.Ask(who, []queuemodel.Limit{*l}, []queuemodel.Item{{Count: count, Number: 100 * len(waits), Now: true, Parts: []queuemodel.Part{{Cost: 1}}}})
							require.NoError(t, err)
							if heads[0].Text != "" {
								l.Known = heads[0].Text
							}
							l.Version, l.Reach, clocks[process] = heads[0].Version, heads[0].Reach, offset
							for _, a := range answers {
								waits = append(waits, float64(a.Status), a.Wait)
							}
						}
						ask("one", 1)
						ask("two", 1)
						offset -= back
						real += rest
						ask("two", 9)
						offset += ahead
						real += 1e4
						ask("one", 5)
						ask("two", 5)
						return waits
					}
					is, want := play(back, ahead), play(0, 0)
					require.Len(t, is, len(want))
					for k := range want {
						require.InDelta(t, want[k], is[k], 1e5, "%v, and without steps %v", is, want) // the scripts do not see the time around a step
					}
				})
			}
		}
	}
}
