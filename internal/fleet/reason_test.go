package fleet_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/fleet"
)

// A reason is cut where it would be lost who pauses, and when.
func TestReason(t *testing.T) {
	at := time.Date(2026, time.May, 9, 10, 5, 0, 0, time.FixedZone("", 7200))
	require.Equal(t, "red (by ann, 9 May 08:05 UTC)", fleet.Reason(" red ", "ann", at))
	require.Equal(t, "(by ann, 9 May 08:05 UTC)", fleet.Reason("", "ann", at))
	for _, letter := range []string{"x", "\u00e9", "\U0001F6A6"} {
		long := fleet.Reason(strings.Repeat(letter, 300), "ann", at)
		require.LessOrEqual(t, len(long), 256)
		require.Greater(t, len(long), 256-len(letter))
		require.True(t, utf8.ValidString(long))
		require.True(t, strings.HasSuffix(long, letter+" (by ann, 9 May 08:05 UTC)"))
	}
	require.Contains(t, fleet.Reason("red", strings.Repeat("n", 300), at), "(by nnn")
}
