package programtest

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fleetpace/fleetpace/bench/internal/redisserver"
)

// NeedRedis skips a test that needs a redis-server, where there is none.
func NeedRedis(t testing.TB) {
	t.Helper()
	_, err := redisserver.Binary()
	if err == nil {
		return
	}
	if slices.Contains(strings.Split(os.Getenv("FLEETPACE_REQUIRE"), ","), "redis") {
		t.Fatalf("FLEETPACE_REQUIRE holds redis, but %v", err)
	}
	t.Skip(err)
}
