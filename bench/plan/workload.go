package main

import (
	"fmt"
	"math"
	"time"
)

// workload is a fleet and what it asks of Redis, in a steady state.
type workload struct {
	Rate      float64       // calls per second of the fleet, over all limits
	Processes int           // that call; each uses all limits
	Limits    int           // names, and keys of For
	Names     int           // of limiters, over which the limits are spread evenly
	Lease     time.Duration // Config.Lease
	Fill      time.Duration // in which the bucket of a limit fills: burst / rate
	RTT       time.Duration // of a PING
	Waiting   int           // calls that wait in the queue, over all limits
}

// terms are what a core costs and how busy it may be.
type terms struct {
	Price float64 // of a core for an hour, in any currency
	Load  float64 // the share of a core that a shard may be busy
}

// invalid is an error that names the flag and the value.
func invalid(flag, format string, args ...any) error {
	return fmt.Errorf("%s "+format, append([]any{flag}, args...)...)
}

const (
	mostRate = 1e9 // calls per second
	mostOf   = 1_000_000_000
	longest  = time.Hour
)

func (w workload) check() error {
	if !(w.Rate > 0 && w.Rate <= mostRate) {
		return invalid("-rate", "%g: want above 0, up to %g calls per second", w.Rate, mostRate)
	}
	for _, f := range []struct {
		flag         string
		value, least int
	}{{"-processes", w.Processes, 1}, {"-limits", w.Limits, 1}, {"-names", w.Names, 1}, {"-waiting", w.Waiting, 0}} {
		if f.value < f.least || f.value > mostOf {
			return invalid(f.flag, "%d: want %d to %d", f.value, f.least, mostOf)
		}
	}
	if w.Names > w.Limits {
		return invalid("-names", "%d: want at most -limits (%d), as each name is a limit at least", w.Names, w.Limits)
	}
	if w.Lease < 0 || w.Lease > time.Minute {
		return invalid("-lease", "%v: want 0 to 1m", w.Lease)
	}
	if w.Fill <= 0 || w.Fill > longest {
		return invalid("-fill", "%v: want above 0, up to %v", w.Fill, longest)
	}
	if w.RTT <= 0 || w.RTT > time.Minute {
		return invalid("-rtt", "%v: want above 0, up to 1m", w.RTT)
	}
	return nil
}

func (t terms) check() error {
	if !(t.Price >= 0) || math.IsInf(t.Price, 0) {
		return invalid("-price", "%g: want 0 or more", t.Price)
	}
	if !(t.Load > 0 && t.Load <= 1) {
		return invalid("-load", "%g: want above 0, up to 1", t.Load)
	}
	return nil
}
