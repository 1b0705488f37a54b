package lua

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// Several flows have booked calls, and one more is booked. It is to be back after a turn of each flow for
// each of its own flow's calls, and not much later: a call that comes back late may find the limit idle
// before. That is so whatever turns the limit gave in the last seconds, to the booked flows or to tenants
// that come and go.
func TestABookedCallComesBackAfterATurnOfEachFlow(t *testing.T) {
	for _, flows := range []int{2, 5, 20} {
		for _, tenants := range []int{0, 30, 150} {
			t.Run(strconv.Itoa(flows)+" flows, turns of tenants "+strconv.Itoa(tenants), func(t *testing.T) {
				const each, interval = 8, second / 50
				s, _ := listening(t, redistest.New(t).Client(t), "p")
				now, number := startMicros, 0
				ask := func(flow, id string, patience float64) queuemodel.Answer {
					number++
					_, answers, err := s.Ask(queuemodel.Caller{Now: now, Grace: 500000, Run: "run", Process: "p", Serial: number},
						[]queuemodel.Limit{{Kind: "p", A: interval, B: 1}},
						[]queuemodel.Item{{Count: 1, Number: number, ID: id, Patience: patience, Latest: never, Flow: &queuemodel.Flow{Name: flow, Weight: 1},
							Parts: []queuemodel.Part{{Cost: 1}}}})
					require.NoError(t, err)
					return answers[0]
				}
				for i := range flows * each {
					require.Equal(t, 3, ask("flood"+strconv.Itoa(i%flows), "job"+strconv.Itoa(i), -1).Status)
				}
				turn := func(flow, id string) {
					now += interval
					require.Equal(t, hasTurn, ask(flow, id, never).Status, "%s %s", flow, id)
				}
				for i := range flows {
					turn("flood"+strconv.Itoa(i), "job"+strconv.Itoa(i))
				}
				for i := range tenants {
					turn("tenant"+strconv.Itoa(i), "")
				}
				for i := range 2 * flows {
					turn("flood"+strconv.Itoa(i%flows), "job"+strconv.Itoa(flows+i))
				}
				back := time.Duration(ask("flood0", "last", -1).Wait) * time.Microsecond
				fair := time.Duration(flows*(each-3)) * interval * time.Microsecond
				t.Logf("back in %v, its turn is in %v", back, fair)
				require.InEpsilon(t, fair, back, 0.1)
			})
		}
	}
}
