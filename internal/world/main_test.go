package world

import (
	"os"
	"runtime/debug"
	"testing"
)

// The interpreter of the scripts makes garbage, and has little that stays.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}
