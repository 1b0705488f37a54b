// Package programtest lets the tests of a program run it as real processes: the
// test binary is the program, too.
package programtest

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

// asProgram in the environment makes the test binary the program itself.
const asProgram = "FLEETPACE_BENCH_TEST_PROGRAM"

// Main is for TestMain. It runs the tests; the processes that they start, the
// children of the program among them, run main.
func Main(m *testing.M, main func()) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	if err := os.Setenv(asProgram, "1"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// Command is the program, as a process that ends with the test.
func Command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return exec.CommandContext(ctx, os.Args[0], args...) //nolint:gosec // the test binary, with arguments of the test
}
