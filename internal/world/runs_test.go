package world

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A history in which time stands still ends, and breaks a law.
func TestTimeThatStandsStillIsSeen(t *testing.T) {
	w := newWorld(draw(1))
	var again func()
	again = func() { w.after(0, again) }
	again()
	w.playOn()
	require.NotEmpty(t, w.violations)
	require.Contains(t, w.violations[0].String(), "law quiet, at 0s: time stands still")
}
