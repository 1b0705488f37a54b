package main

import (
	"os"
	"testing"
)

// asProgram in the environment makes the test binary the program itself, so that
// tests run real processes.
const asProgram = "FLEETPACE_BENCH_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}
