package riverpace_test

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/fleetpace/fleetpace/internal/ledger"
)

var (
	// book records the turns of all tests in this process: each test has a prefix of its own.
	book *ledger.Book

	// requirePostgres makes a missing PostgreSQL a failure.
	requirePostgres bool
)

// TestMain runs the tests. If a test started this binary, it runs a River client instead.
func TestMain(m *testing.M) {
	if text := os.Getenv(jobVariable); text != "" {
		go func() { // the parent holds the standard input open
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(1)
		}()
		if err := serve(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	requirePostgres = slices.Contains(strings.Split(os.Getenv("FLEETPACE_REQUIRE"), ","), "postgres")
	book = ledger.Open()
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction(
		"github.com/redis/go-redis/v9/maintnotifications.(*CircuitBreakerManager).cleanupLoop"))
}
