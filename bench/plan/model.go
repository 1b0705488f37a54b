package main

import "math"

// What reserve does with Redis, as far as it costs.
const (
	farTrip     = 2e-3 // seconds: from such a round trip on, that many asks …
	mostInAir   = 16   // … of a process and name are in the air
	mostLimits  = 90   // of an ask where nobody waits
	mostWaiting = 12   // calls of an ask where calls wait
	leadSeconds = 0.1  // how long before its turn a call asks again
	beatSeconds = 1.   // between two heartbeats of a process and name
	idleSeconds = 10.  // after which a name that nobody uses has none
	packedHash  = 512  // processes: up to so many make a heartbeat dearer
)

// demand is what a workload asks of Redis. These are the formulas; a rate is per
// second, T is in seconds, micros are microseconds of the one core that carries out
// scripts.
//
// # What asks, per process and name
//
//	pair      a process and a limit. A pair makes u = Rate / (Processes * Limits) calls
//	          per second, in no order (Poisson)
//	lined     min(1, Waiting/Limits): the share of the limits in which calls wait. No
//	          permits are stored in them, so a lease gives them nothing
//	common    of each pair that is not lined: u, each call asks. With a lease min(u, 4/span)
//	          with span = min(Lease, Fill/2), as a process takes its demand for half of
//	          the span and asks again when half of that is left
//	waiting   of each lined pair: 2u, as each call asks when it comes, and once more
//	          100 ms before its turn. Along with the second one goes another place of
//	          that pair, if there is one (1 - e^-n of n = Waiting / pairs): what it
//	          hears corrects all forecasts
//
// # Group commit
//
// T is RTT plus the time that the script call takes in Redis; k is how many are in the
// air: 1, or 16 where RTT is 2 ms or more. What asks meanwhile goes with the next one;
// what asks when none is in the air goes at once. So for asks at a rate r
//
//	trips(r, T) = r / (r*T/k + e^(-r*T/k))    asks per trip = r / trips
//
// which is r when few ask and k/T when many do. The limits of n asks out of K are
//
//	limits = K * (1 - (1-1/K)^n), at most 90
//
// and of calls that wait a trip has 12 at most, so there may be more trips than that.
//
// # Script calls
//
//	common    trips. Common.Call + Common.Each * limits micros
//	waiting   trips. Waiting.Call + Waiting.Each * calls. Where both ask they share trips,
//	          which are split by their shares of the asks
//	beat      one per second and process and name in use: 1 - e^-(10*calls + those
//	          that wait), as one is for 10 s after a call. Beat.Call + Beat.Each * min(512, Processes in use)
//
// # Memory
//
//	limits    State bytes each, or Lined where calls wait
//	places    Places(Waiting / lined limits) each
//	names     Name(Processes in use) each
//
// # Where the constants come from
//
// Micros and bytes are measured by -calibrate and stand in calibration.json. The
// other ones, above, are reserve's own. What is left out: that other processes' calls
// hold a trip up (so near a full core there are fewer and larger ones than this
// says), calls that give up (a leave each), pauses, and connections.
func demand(w workload, c calibration) []part {
	processes, limits, names := float64(w.Processes), float64(w.Limits), float64(w.Names)
	calls := w.Rate / (processes * limits)
	lined := linedOf(w)
	s := stream{
		common: asksOf(calls, w) * (1 - lined) * limits / names,
		turns:  calls * lined * limits / names,
		more:   -math.Expm1(-float64(w.Waiting) / (processes * limits)),
		limits: max(1, limits/names*(1-lined)),
	}
	trips, share, common, waiting := s.trips(w.RTT.Seconds(), c)
	pairs := processes * names
	return []part{
		newPart("common", c.Common, pairs*trips*share, common),
		newPart("waiting", c.Waiting, pairs*trips*(1-share), waiting),
		newPart("beat", c.Beat, pairs*inUse(w)/beatSeconds, min(packedHash, processes*inUse(w))),
	}
}

// part is what one kind of script call asks of Redis.
type part struct {
	Name   string  `json:"name"`
	Trips  float64 `json:"calls_per_second"`
	Items  float64 `json:"items_per_call"` // limits, calls that wait, or processes
	Script float64 `json:"script_cores"`   // the share of a core in scripts
	Cores  float64 `json:"cores"`          // the same with parsing, reading and writing
}

func newPart(name string, v verb, trips, items float64) part {
	if trips == 0 {
		return part{Name: name}
	}
	return part{Name: name, Trips: trips, Items: items,
		Script: trips * v.Script.of(items) / 1e6, Cores: trips * v.CPU.of(items) / 1e6}
}

// linedOf is the share of the limits in which calls wait.
func linedOf(w workload) float64 { return min(1, float64(w.Waiting)/float64(w.Limits)) }

// inUse is the share of the processes that use a name of late, or have calls waiting there.
func inUse(w workload) float64 {
	return -math.Expm1(-(idleSeconds*w.Rate + float64(w.Waiting)) / (float64(w.Processes) * float64(w.Names)))
}

// asksOf is how many of a pair's calls per second ask Redis, where nobody waits.
func asksOf(calls float64, w workload) float64 {
	span := min(w.Lease, w.Fill/2).Seconds()
	if span <= 0 {
		return calls
	}
	return min(calls, 4/span)
}

// stream is what a process asks of a name, per second.
type stream struct {
	common float64 // where nobody waits …
	limits float64 // … of so many limits
	turns  float64 // of calls that wait, …
	more   float64 // … each with so many others that are asked for with it
}

// trips is how many asks per second carry a stream, which share of them is of limits where
// nobody waits, and how many items an ask of either kind has. The more it has, the longer it
// takes, the more ask meanwhile: the least solution, found from below.
func (s stream) trips(rtt float64, c calibration) (trips, share, common, waiting float64) {
	asks := s.common + 2*s.turns
	if asks == 0 {
		return 0, 0, 0, 0
	}
	share = s.common / asks
	items := s.turns * (2 + s.more)
	last := math.Inf(1)
	for range 10_000 {
		micros := share*c.Common.CPU.of(common) + (1-share)*c.Waiting.CPU.of(waiting)
		trips = max(tripsOf(asks, rtt+micros/1e6, inAir(rtt)), items/mostWaiting)
		if share > 0 {
			common = min(distinct(s.common/trips, s.limits), mostLimits) / share
		}
		if share < 1 {
			waiting = items / trips / (1 - share)
		}
		if last-trips <= 1e-9*trips {
			break
		}
		last = trips
	}
	return trips, share, common, waiting
}

// inAir is how many asks a process and name has in the air.
func inAir(rtt float64) float64 {
	if rtt < farTrip {
		return 1
	}
	return mostInAir
}

// tripsOf is how many trips of so many seconds carry asks of a rate.
func tripsOf(asks, seconds, inAir float64) float64 {
	during := asks * seconds / inAir
	return asks / (during + math.Exp(-during))
}

// distinct is how many of the limits n calls are for.
func distinct(n, limits float64) float64 {
	if limits <= 1 {
		return min(1, n)
	}
	return min(n, -limits*math.Expm1(n*math.Log1p(-1/limits)))
}

// memoryOf is the data, in bytes, without what servers need when they are empty.
func memoryOf(w workload, c calibration) float64 {
	limits, lined := float64(w.Limits), linedOf(w)*float64(w.Limits)
	bytes := (limits-lined)*c.State + float64(w.Names)*c.Name.of(max(1, float64(w.Processes)*inUse(w)))
	if lined > 0 {
		bytes += lined * (c.Lined + c.Places.of(float64(w.Waiting)/lined))
	}
	return bytes
}
