package world

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// Calls that give up after a moment lose no permits while others wait. The test has some such calls or
// many, in one process, with several bursts.
func TestCallsThatGiveUpLoseNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, quits := range redistest.Budget([]float64{0.1, 0.25, 0.45}, []float64{0.25}) {
		for _, patience := range []string{"2ms", "6ms", "20ms", "100ms"} {
			for _, callers := range []int{20, 60} {
				p, err := readPlan(fmt.Sprintf("world seed=%d policy=wait until=2s\nlimit name=a is=\"%d/s burst %d\"\nprocess trip=300µs timeout=500ms\n"+
					"load callers=%d of=all need=0:1 quits=%v patience=%s\n", random.IntN(1000), 100+random.IntN(200), 1+random.IntN(3), callers, quits, patience))
				require.NoError(t, err)
				for _, v := range play(p, false, nil).violations {
					t.Errorf("%v\n%v", v, p)
				}
			}
		}
	}
}
