//go:build mistakes

package world

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFinds finds a history that breaks a law. TestMistakesInTheEngine builds it with a mistake in the engine,
// and runs it. It plays the transcripts first, then the histories of the gate.
func TestFinds(t *testing.T) {
	law := os.Getenv("FLEETPACE_WORLD_FINDS")
	until := time.Now().Add(time.Minute)
	for n, in := range all(t) {
		if time.Now().After(until) {
			break
		}
		p := historyOf(t, in)
		w := play(p, false, nil)
		for _, v := range w.violations {
			if law == "any" || v.law == law {
				text, err := json.Marshal(found{Law: v.law, In: fmt.Sprint(in), Histories: n + 1})
				require.NoError(t, err)
				t.Logf("FOUND %s", text)
				return
			}
		}
		for _, v := range w.violations {
			t.Logf("%v: %v", in, v)
		}
	}
}
