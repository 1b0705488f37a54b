package redistest

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// Budget returns how much a test plays: all where FLEETPACE_REQUIRE is set, as it is in the gate, and a part
// where somebody runs the tests as they are.
func Budget[T any](all, part T) T {
	if os.Getenv(envRequire) != "" {
		return all
	}
	return part
}

// GateOnly skips a case that is dear, beside which others of the same test are played, unless FLEETPACE_REQUIRE is set.
func GateOnly(t testing.TB) {
	t.Helper()
	if Budget(false, true) {
		t.Skipf("the gate plays this case: set %s=redis", envRequire)
	}
}

// SideBySide sets how many parallel tests run at a time. It is for a TestMain whose tests mostly wait. The user's flag
// takes precedence.
func SideBySide(tests int) {
	if err := flag.Set("test.parallel", strconv.Itoa(tests)); err != nil {
		panic(err)
	}
}
