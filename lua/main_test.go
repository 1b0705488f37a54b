package lua

import (
	"os"
	"runtime/debug"
	"testing"
)

// long lets tests play for as long as they are allowed to, from random seeds.
var long = os.Getenv("FLEETPACE_LONG") != ""

func TestMain(m *testing.M) {
	// miniredis makes much garbage next to little that lives.
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}
