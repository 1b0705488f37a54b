package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Two plans may have the same window, of which the one keeps a part for late turns and the other nothing. Nobody knows
// that of the plan of another process.
func TestLateTurnsOfPlans(t *testing.T) {
	of := Terms{Kind: "r", A: 5, B: 1e6, Late: 100_000}
	l := NewLimit(of, []string{"s", "p", "l", "x"}, new(Name))
	none := of
	none.Late = 0
	l.Plan(none, 1)
	require.Zero(t, l.Late, "the new plan has the same numbers")
	l.Plan(of, 2)
	require.EqualValues(t, 100_000, l.Late)
	l.follow("1099511627779 5 2e6") // version 3
	require.EqualValues(t, 2e6, l.B)
	require.Zero(t, l.Late, "the plan of another process")
}
