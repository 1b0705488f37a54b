package world

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	page  = "../../docs/how-it-works.md"
	begin = "<!-- printed by FLEETPACE_PRINT=1 go test ./internal/world -run TestPageOfGuarantees -->\n"
	end   = "<!-- end of the table -->\n"
)

// The page prints the table by which histories are judged. FLEETPACE_PRINT=1 writes it.
func TestPageOfGuarantees(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok, "the page lacks the line %q", begin)
	_, after, ok := strings.Cut(rest, end)
	require.True(t, ok, "the page lacks the line %q", end)
	printed := before + begin + Table() + end + after
	if os.Getenv("FLEETPACE_PRINT") != "" {
		require.NoError(t, os.WriteFile(page, []byte(printed), 0o644))
		return
	}
	require.Equal(t, printed, string(text), "the table has changed: set FLEETPACE_PRINT=1 to print it anew")
}

// There is a row for each event, except for events that lose nothing by themselves.
func TestEachEventIsInTheTable(t *testing.T) {
	for _, what := range slices.Concat(ofMessages, ofTheWay, ofTheServer, ofMoments, ofProcesses, ofOperators) {
		for _, by := range []time.Duration{-time.Second, time.Second} {
			rows := 0
			for _, g := range Guarantees {
				if g.covers(&event{what: what, by: by}) {
					rows++
				}
			}
			if slices.Contains(ofOperators, what) {
				continue
			}
			require.Equal(t, 1, rows, "%s by %v", what, by)
		}
	}
}
