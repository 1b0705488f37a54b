package main

import (
	"os"
	"testing"
)

// asProgram in the environment makes the test binary the crawler itself, so
// that tests run real processes, workers included.
const asProgram = "FLEETPACE_CRAWLER_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}
