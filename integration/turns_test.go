package integration

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/ledger"
)

// ahead is the most by which a turn is granted early, including the delay of its reply.
const ahead = time.Second

// keepTurns makes this process write its turns to a ledger, if there is one.
func keepTurns(dir, process string) error {
	if dir == "" {
		return nil
	}
	return ledger.Keep(dir, process)
}

// turnsIn returns the turns of a ledger so far.
func turnsIn(t testing.TB, dir string) []ledger.Turn {
	t.Helper()
	turns, err := ledger.Read(dir)
	require.NoError(t, err)
	return turns
}

// keep expects that turns keep a limit.
func keep(t assert.TestingT, limit ledger.Limit, turns []ledger.Turn) {
	if found := limit.Faults(turns); len(found) > 0 {
		t.Errorf("%d faults in %d turns: %v", len(found), len(turns), found[:min(len(found), 3)])
	}
}

// measure logs figures. They say how well something worked on this machine, and no test depends on
// them.
func measure(t testing.TB, what string, figures map[string]any) {
	t.Helper()
	figures["what"] = what
	text, err := json.Marshal(figures)
	require.NoError(t, err)
	t.Logf("MEASURE %s", text)
}
