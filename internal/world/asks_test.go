package world

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A call that needs a slow limit and a fast one has no turn ahead, since that would cost the fast limit permits. It
// asks when it comes, and at the last moment.
func TestCallsOfAFastLimitAskTwice(t *testing.T) {
	p, err := readPlan(`world seed=1 policy=fail until=4s
limit name=slow is=310/s
limit name=fast is=88000/s
process trip=700µs timeout=400ms
process trip=700µs timeout=400ms
process trip=700µs timeout=400ms
load callers=7 of=all need=0:1+1:1
`)
	require.NoError(t, err)
	w := play(p, false, nil)
	require.Empty(t, w.violations)
	turns, asks := w.ended[made], w.server.calls["ask"]
	t.Logf("MEASURE %d turns, %d asks", turns, asks)
	require.Greater(t, turns, 1000)
	require.Less(t, asks, 2*turns+turns/10)
}
