package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// depthOf returns how deep the tests explore a world. The gate explores all of it. The depth is less elsewhere, and
// under the race detector, which takes twice as long.
func depthOf(c Config) int {
	if redistest.Budget(raceDetector, true) {
		return c.Depth - 1
	}
	return c.Depth
}

// Each world is explored to its depth, and no law is broken. Some of the paths are replayed on a real
// Redis, which gives the same replies.
func TestWorlds(t *testing.T) {
	for _, c := range worlds {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			const samples = 5
			c, _ := worldOf(c.Name)
			x := newExplorer(c, mistake{})
			r := x.explore(depthOf(c), samples, 0, nil)
			if r.Broken != nil {
				lines, _ := x.transcript(r.Path, r.Alive)
				t.Fatalf("%v, after %d states:\n%s", r.Broken, r.States, strings.Join(lines, "\n"))
			}
			t.Logf("depth %d: %d states, %d steps, %d scripts, %d states played on, %.1f s", r.Depth, r.States, r.Steps, r.Scripts, r.Played, r.Took.Seconds())
			require.Len(t, r.Samples, samples)
			t.Run("replay", func(t *testing.T) { replaySamples(t, x, r.Samples) })
		})
	}
}

// replaySamples replays paths on a real Redis. It is skipped if there is none.
func replaySamples(t *testing.T, x *explorer, samples [][]int) {
	client, commands := redistest.Local(t).Client(t), 0
	for _, path := range samples {
		lines, played := x.transcript(path, true)
		commands += len(played)
		err := x.replay(t.Context(), client, redistest.Prefix(t), played)
		require.NoError(t, err, "%s", strings.Join(lines, "\n"))
	}
	require.Greater(t, commands, 2*len(samples))
}

// A path that is played again leads to the same state, and a transcript has a line for each action.
func TestTranscript(t *testing.T) {
	c, _ := worldOf("lost")
	x := newExplorer(c, mistake{})
	r := x.explore(4, 50, 0, nil)
	for _, path := range r.Samples {
		lines, _ := x.transcript(path, false)
		require.Len(t, lines, len(path))
		again, _ := x.transcript(path, false)
		require.Equal(t, lines, again)
	}
}
