package world

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// After a failover to a replica that lags no call is too early, whoever asks first: also a process that had no
// request under way when the server failed, and so has seen none fail.
func TestNobodyIsEarlyAfterAFailover(t *testing.T) {
	seeds := redistest.Budget[uint64](40, 10)
	if raceDetector {
		seeds = 10
	}
	for seed := range seeds {
		p := drawFailover(t, seed)
		for _, v := range play(p, false, nil).violations {
			t.Errorf("%v\n%v", v, p)
		}
	}
}

// drawFailover draws a failover that lasts up to two seconds, to a replica that lags by up to three, as a small
// bucket is in use.
func drawFailover(t *testing.T, seed uint64) *plan {
	t.Helper()
	random := (&plan{seed: seed}).source("failover", 0)
	one := func(of ...string) string { return of[random.IntN(len(of))] }
	within := func(d time.Duration) time.Duration {
		return time.Duration(random.Int64N(int64(d))).Round(time.Millisecond)
	}
	lag, away := 50*time.Millisecond+within(2950*time.Millisecond), within(2*time.Second)
	if random.IntN(3) > 0 {
		lag, away = 50*time.Millisecond+lag/10, away/10
	}
	if random.IntN(3) == 0 {
		away = 0
	}
	var b strings.Builder
	fmt.Fprintf(&b, "world seed=%d policy=wait until=4s\n", seed)
	limits := 1 + random.IntN(3) // a process that asks for another limit than the one before finds the scripts loaded
	for i := range limits {
		fmt.Fprintf(&b, "limit name=api%d is=%q settles=%v\n", i, one("5/s burst 20", "5/s", "20/s burst 3", "20/s burst 40"), random.IntN(2) == 0)
	}
	for range 2 + random.IntN(9) {
		fmt.Fprintf(&b, "process trip=%s timeout=500ms\n", one("1ms", "2ms", "20ms"))
	}
	for i := range limits {
		fmt.Fprintf(&b, "load callers=%d of=all need=%d:1 think=%s used=%s\n", 1+random.IntN(12), i, one("0s", "20ms", "150ms", "900ms"), one("0", "1"))
	}
	fmt.Fprintf(&b, "%v fail-over for=%v by=%v\n", 2*time.Second+within(time.Second), away, lag)
	p, err := readPlan(b.String())
	require.NoError(t, err, b.String())
	return p
}
