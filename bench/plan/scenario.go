package main

import (
	"math"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// scenario is a workload that is carried out on the cluster.
type scenario struct {
	Name string
	workload
}

// scenarios show one thing each; they are small, as callers and shards share a machine.
var scenarios = []scenario{
	{"many limits", workload{Rate: 1200, Processes: 4, Limits: 60, Names: 6, Fill: 2 * time.Second}},
	{"few limits", workload{Rate: 2400, Processes: 4, Limits: 3, Names: 3, Fill: 2 * time.Second}},
	{"lease 1s", workload{Rate: 2400, Processes: 4, Limits: 12, Names: 3, Fill: 2 * time.Second, Lease: time.Second}},
	{"waiting", workload{Rate: 240, Processes: 4, Limits: 12, Names: 3, Fill: time.Second, Waiting: 480}},
}

// config is that of a process's limiter. Where nothing waits, limits allow twice of
// what is asked, so that permits are stored.
func (s scenario) config(prefix, name string) reserve.Config {
	p := s.pace()
	interval := time.Duration(p.micros * float64(time.Microsecond))
	return reserve.Config{
		Prefix: prefix, Name: name, Lease: s.Lease,
		Limit: reserve.Every(interval).Burst(p.burst),
	}
}

// pace is the limit of each line.
func (s scenario) pace() pace {
	rate := s.Rate / float64(s.Limits)
	if s.Waiting == 0 {
		rate *= 2
	}
	return pace{
		micros: max(1, math.Round(1e6/rate)), // as a Config takes it
		burst:  max(1, int(rate*s.Fill.Seconds())),
	}
}

// callers are how many calls wait all the time where numbers wait: those that are
// claimed already, for half of InlineBound, come on top.
func (s scenario) callers() int {
	return s.Waiting + int(s.Rate*claimAhead)
}
