package main

import (
	"context"
	"time"
)

// testcase is one thing to measure, and who takes part.
type testcase struct {
	name       string
	contenders []string
	seconds    float64 // without -seconds
	usual      bool    // part of a run without -case
	run        func(ctx context.Context, s *session, t trial) ([]*record, error)
}

// trial is a case with what the command line says of it.
type trial struct {
	testcase
	contenders []contender
	time       time.Duration
	rounds     int
}

var (
	everyone = []string{fleetpaceName, contextName, "redis_rate", "throttled", "guava", pingName, "x/time/rate", "uber"}
	onRedis  = []string{fleetpaceName, "redis_rate", "throttled", "guava", pingName}
	leasing  = []string{fleetpaceName, leaseName}
)

var cases = []testcase{
	{"uncontended", everyone, 4.5, true, closed(1, 0)},
	{"parallel-8", everyone, 4.5, false, closed(8, 0)},
	{"parallel-64", everyone, 4.5, true, closed(64, 0)},
	{"parallel-512", everyone, 4.5, false, closed(512, 0)},
	{"parallel-4096", everyone, 4, true, closed(4096, 0)},
	{"many-limits", onRedis, 3.5, true, closed(1024, 10_000)},
	{"rtt-5ms", []string{fleetpaceName, leaseName, "redis_rate", pingName}, 3.5, true, runRTT},
	{"lease-100k", leasing, 2.5, true, runLease100k},
	{"lease-steady", leasing, 3, true, runLeaseSteady},
	{"lease-bursty", leasing, 3, true, runLeaseBursty},
	{"memory", []string{fleetpaceName, "redis_rate", "throttled", "guava"}, 1, true, runMemory},
	{"memory-million", []string{fleetpaceName}, 60, false, runMemoryMillion},
	{"accuracy", []string{fleetpaceName}, 4, true, runAccuracy},
}

// charted are the cases in the picture, by their number of goroutines.
var charted = []struct {
	name       string
	goroutines float64
}{{"uncontended", 1}, {"parallel-8", 8}, {"parallel-64", 64}, {"parallel-512", 512}, {"parallel-4096", 4096}}

func caseNames() []string {
	var all []string
	for _, c := range cases {
		all = append(all, c.name)
	}
	return all
}
