package worker_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"github.com/fleetpace/fleetpace/internal/ledger"
)

// book has the turns of all tests: each has a prefix of its own.
var book *ledger.Book

// Every test of this package must end without a goroutine left behind. The one
// that go-redis keeps for an open client is not the worker's: examples leave
// their clients open, to stay short.
func TestMain(m *testing.M) {
	book = ledger.Open()
	// Those that are parallel mostly wait, and none judges how fast anything is.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction(
		"github.com/redis/go-redis/v9/maintnotifications.(*CircuitBreakerManager).cleanupLoop"))
}
