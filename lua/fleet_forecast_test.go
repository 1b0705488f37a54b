package lua

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
)

// Rule 10: calls with IDs that wait ask when their permits are there, however many of those who are
// booked before them do not come back. So all of the limit is used.
func TestBookingsOfOthersMakeNoHeadLate(t *testing.T) {
	const rate, seconds = 20, 8
	for what, limit := range map[string]queuemodel.Limit{
		"paced": {Kind: "p", A: second / rate, B: 1}, "bursts": {Kind: "p", A: second / rate, B: 5}, "rolling": {Kind: "r", A: rate, B: second},
	} {
		for _, gone := range []int{1, 3} {
			for _, patience := range []float64{1.5, 5} {
				t.Run(fmt.Sprint(what, ", ", gone, " gone for each, ", patience, " s"), func(t *testing.T) {
					s := newSimulation(t, 1000, limit)
					const calls = seconds * rate * 12 / 10 // more than the limit lets through
					every := seconds * second / calls
					live := s.come(calls, 0, every, patience*second, false)
					s.come(calls*gone, 1, every/float64(gone), -1, true)
					s.run(seconds)
					used := float64(len(live.made)) / rate / seconds
					t.Logf("used %.3f, %.1f asks per turn", used, float64(s.asks)/float64(len(live.made)))
					require.Zero(t, s.refused)
					require.GreaterOrEqual(t, used, 0.985)
				})
			}
		}
	}
}
