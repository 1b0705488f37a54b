package fleet_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/fleet"
)

// A reason is cut where the name of who pauses would be lost.
func TestReason(t *testing.T) {
	require.Equal(t, "red (by ann)", fleet.Reason(" red ", "ann"))
	require.Equal(t, "(by ann)", fleet.Reason("", "ann"))
	for _, letter := range []string{"x", "\u00e9", "\U0001F6A6"} {
		long := fleet.Reason(strings.Repeat(letter, 300), "ann")
		require.LessOrEqual(t, len(long), 256)
		require.Greater(t, len(long), 256-len(letter))
		require.True(t, utf8.ValidString(long))
		require.True(t, strings.HasSuffix(long, letter+" (by ann)"))
	}
	require.Contains(t, fleet.Reason("red", strings.Repeat("n", 300)), "(by nnn")
}
