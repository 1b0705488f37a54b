package reserve_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Every test of this package must end without a goroutine left behind. With
// FLEETPACE_RESERVE_REDIS=real they run on a real Redis instead of miniredis.
func TestMain(m *testing.M) {
	stop := func() {}
	if wantsRealRedis() {
		var err error
		if realServer, stop, err = startRealRedis(); err != nil {
			fmt.Fprintln(os.Stderr, "FLEETPACE_RESERVE_REDIS=real:", err)
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		stop()
		os.Exit(code)
	}))
}

// long lets tests play fleets for as long as they are allowed to: hours and days.
var long = os.Getenv("FLEETPACE_LONG") != ""

func wantsRealRedis() bool { return os.Getenv("FLEETPACE_RESERVE_REDIS") == "real" }
