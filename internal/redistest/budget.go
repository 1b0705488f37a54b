package redistest

import (
	"flag"
	"os"
	"strconv"
)

// Budget returns how much a test plays: all where FLEETPACE_REQUIRE is set, as it is in the gate, and a part
// where somebody runs the tests as they are.
func Budget[T any](all, part T) T {
	if os.Getenv(envRequire) != "" {
		return all
	}
	return part
}

// SideBySide sets how many parallel tests run at a time. It is for a TestMain whose tests mostly wait. The user's flag
// takes precedence.
func SideBySide(tests int) {
	if err := flag.Set("test.parallel", strconv.Itoa(tests)); err != nil {
		panic(err)
	}
}
