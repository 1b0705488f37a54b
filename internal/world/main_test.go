package world

import (
	"os"
	"runtime/debug"
	"testing"
)

// The interpreter of the scripts makes much garbage, and keeps little memory. With more room than this its memory no longer
// fits the caches of a processor, and histories take longer.
func TestMain(m *testing.M) {
	debug.SetGCPercent(300)
	os.Exit(m.Run())
}
