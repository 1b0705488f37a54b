package world

import (
	"os"
	"runtime/debug"
	"testing"
)

// The interpreter of the scripts makes much garbage, and keeps little memory.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}
