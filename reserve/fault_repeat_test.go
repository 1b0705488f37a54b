//go:build !race

package reserve_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// On one core the same seed makes the same history, event for event: on several, what
// happens at one moment happens in any order. So it does under the race detector.
func TestFaultHistoryRepeats(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	seeds := 30
	if testing.Short() {
		seeds = 6
	}
	before := ""
	for seed := range uint64(seeds) {
		first := play(t, seed, bug{}).log.String()
		require.Equal(t, first, play(t, seed, bug{}).log.String(), "seed %d", seed)
		require.NotEqual(t, before, first, "another seed makes another history")
		before = first
	}
}
