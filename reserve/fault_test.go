package reserve_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

// The client would log every connection that it can not have.
func init() { logging.Disable() }

// Histories of a fleet with troubles on its way to Redis and in Redis itself: see plan for what
// happens, and check for what must hold. To run more of them, or a single one:
//
//	FLEETPACE_FAULT_HISTORIES=5000 go test ./reserve -run TestFaultHistories
//	FLEETPACE_FAULT_SEED=17 go test ./reserve -run TestFaultHistories -v
func TestFaultHistories(t *testing.T) {
	if text := os.Getenv("FLEETPACE_FAULT_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		h := play(t, newPlan(seed), bug{})
		t.Logf("%s%d calls, %q", h.plan, len(h.served), h.problems)
		if len(h.problems) > 0 {
			t.Fail()
		}
		return
	}
	histories := faultHistories(t)
	started, failed := time.Now(), 0
	for seed := 1; seed <= histories && failed < 5; seed++ {
		if h := play(t, newPlan(uint64(seed)), bug{}); len(h.problems) > 0 {
			failed++
			t.Errorf("FLEETPACE_FAULT_SEED=%d: %q\n%s", seed, h.problems, h.plan)
		}
	}
	t.Logf("FAULT HISTORIES %d, %v each", histories, (time.Since(started) / time.Duration(histories)).Round(time.Millisecond))
}

// faultHistories is how many a test plays.
func faultHistories(t *testing.T) int {
	if text := os.Getenv("FLEETPACE_FAULT_HISTORIES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if raceDetector || testing.Short() {
		return 10
	}
	return 16
}
