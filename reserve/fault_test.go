package reserve_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

// The client would log every connection that it can not have.
func init() { logging.Disable() }

// Histories of a fleet with faults on its way to Redis and in Redis itself. See
// plan for what happens, and check for what must hold. To run more of them, or
// a single one with its events:
//
//	FLEETPACE_FAULT_HISTORIES=5000 go test ./reserve -run TestFaultHistories
//	GOMAXPROCS=1 FLEETPACE_FAULT_SEED=17 go test ./reserve -run TestFaultHistories -v
func TestFaultHistories(t *testing.T) {
	t.Parallel()
	if text := os.Getenv("FLEETPACE_FAULT_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		h := play(t, seed, bug{})
		t.Logf("%s%s", h.plan, h.log)
		for _, p := range h.problems {
			t.Error(p)
		}
		return
	}
	histories := 300
	if raceDetector || testing.Short() {
		histories = 40
	}
	if text := os.Getenv("FLEETPACE_FAULT_HISTORIES"); text != "" {
		var err error
		if histories, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	started := time.Now()
	t.Cleanup(func() {
		took := time.Since(started)
		t.Logf("FAULT HISTORIES %d in %v, %v each and core", histories, took.Round(time.Millisecond),
			(took * time.Duration(runtime.GOMAXPROCS(0)) / time.Duration(histories)).Round(10*time.Microsecond))
	})
	// Seeds that found something among the first 14,000.
	for _, seed := range []uint64{838, 5483, 6314, 8490, 9532, 13803} {
		if h := play(t, seed, bug{}); len(h.problems) > 0 {
			report(t, h)
		}
	}
	chunks := runtime.GOMAXPROCS(0)
	for chunk := range chunks {
		t.Run(fmt.Sprintf("chunk=%d", chunk), func(t *testing.T) {
			t.Parallel()
			failed, limit := 0, 5
			if os.Getenv("FLEETPACE_FAULT_BRIEF") != "" {
				limit = histories
			}
			for seed := 1 + chunk; seed <= histories && failed < limit; seed += chunks {
				if h := play(t, uint64(seed), bug{}); len(h.problems) > 0 {
					failed++
					report(t, h)
				}
			}
		})
	}
}

// report tells what went wrong and how to see it again.
func report(t *testing.T, h *history) {
	t.Helper()
	t.Errorf("seed %d (%s): %q", h.plan.seed, h.plan.brief(), h.problems)
	if os.Getenv("FLEETPACE_FAULT_BRIEF") == "" {
		t.Logf("%s%sTo run this one alone: GOMAXPROCS=1 FLEETPACE_FAULT_SEED=%d go test ./reserve -run TestFaultHistories -v", h.plan, h.log, h.plan.seed)
	}
}
