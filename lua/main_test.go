package lua

import (
	"os"
	"runtime/debug"
	"testing"
)

func TestMain(m *testing.M) {
	// miniredis makes much garbage next to little that lives.
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}
