package world

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// The places of killed processes delay the calls behind them only for a moment. The places may belong to
// one process or to many, and may be between places of living processes or before them.
func TestPlacesOfTheDead(t *testing.T) {
	const calls, living = 200, 2
	random := rand.New(rand.NewPCG(1, 2))
	for _, part := range redistest.Budget([]float64{0.1, 0.3, 0.5, 0.7, 0.9}, []float64{0.3, 0.9}) {
		for _, killed := range []int{1, 9} {
			for _, flows := range []bool{false, true} {
				dead := int(part * calls)
				var b strings.Builder
				fmt.Fprintf(&b, "world seed=%d policy=wait until=3s\nlimit name=a is=\"10/s burst %d\"\n", random.IntN(1000), 1+9*random.IntN(2))
				for n := range living + killed {
					begin, callers, flow := 200+1200*random.IntN(2), (calls-dead)/living, ""
					if n >= living {
						begin, callers = 500+random.IntN(800), dead/killed
						fmt.Fprintf(&b, "%dms kill of=#%d\n", 2500+random.IntN(500), n)
					}
					if flows {
						flow = "flow=" + string(rune('x'+n%3))
					}
					fmt.Fprintf(&b, "process number=#%d trip=1ms timeout=500ms\n", n)
					fmt.Fprintf(&b, "load callers=%d of=#%d need=0:1 begin=%dms calls=1 think=%dms %s\n", callers, n, begin, 200*random.IntN(3), flow)
				}
				p, err := readPlan(b.String())
				require.NoError(t, err)
				for _, v := range play(p, false, nil).violations {
					t.Errorf("%.1f of the queue is dead, of %d processes: %v\n%v", part, killed, v, p)
				}
			}
		}
	}
}
