package main

import "math"

// What reserve does with Redis, as far as it costs; see its package documentation.
const (
	farTrip        = 2e-3  // seconds: from such a round trip on, that many are in the air …
	mostInAir      = 16    // … quick calls of a process and name
	mostLimits     = 100   // of a quick call
	mostRequests   = 256   // of a take or claim
	refreshSeconds = 22.   // after these, on average, a limit's next call is a take
	censusSeconds  = 10.   // between two counts of the processes
	claimSeconds   = 0.125 // turns so close are claimed together
	claimAhead     = 0.5   // seconds before its turn a number is claimed: half of InlineBound
	aliveSeconds   = 60.   // for so long Redis knows a process that is silent
	lookSeconds    = 0.25  // between two looks for a number left lying, when the own turn is near
	lookShare      = 32    // when it is far, this part of the time until then
)

// demand is what a workload asks of Redis. These are the formulas; a rate is per
// second, T is in seconds, micros are microseconds of the one core that carries out
// scripts.
//
// # Calls that ask
//
//	pair      a process and a limit. A pair makes u = Rate / (Processes * Limits) calls
//	          per second, in no order (Poisson)
//	lined     min(1, Waiting/Limits): the share of the limits in which numbers wait.
//	          No permits are stored in them, so a lease gives them nothing
//	asks      of a pair without a lease: u, each call asks. With a lease: min(u, 4/span)
//	          with span = min(Lease, Fill/2), as a process takes its demand for half of
//	          the span and asks again when half of that is left
//
// # Group commit
//
// T is RTT plus the time that the call takes in Redis; k is how many calls of a process
// and name are in the air: 1, or 16 where RTT is 2 ms or more (of takes and claims, one
// per limit). What asks meanwhile goes with the next one; what asks when none is in the
// air goes at once. So for asks at a rate r
//
//	trips(r, T) = r / (r*T/k + e^(-r*T/k))    asks per trip = r / trips
//
// which is r when few ask and k/T when many do. The limits of n asks out of K are
//
//	limits = K * (1 - (1-1/K)^n), at most 100
//
// # Script calls
//
//	quick     per process and name: trips(asks of its limits that are not lined and
//	          need no refresh). Each costs Quick.Call + Quick.Each * limits micros
//	refresh   per pair that is not lined: asks / (22*asks + 1), as the first ask of a
//	          pair 22 s after its last take is a take. Take.Call + Take.Each * (1 + u*T)
//	lineup    per lined pair: trips(u, T), at least u/256. LineUp.Call + LineUp.Each *
//	          requests, where requests = u / lineup
//	claim     per lined pair: u / (1 + u/8), at least u/256: turns within an eighth of a
//	          second are claimed together. Claim.Call + Claim.Each * requests
//	look      per lined pair with a number that waits, of which it has n = Waiting / pairs:
//	          min(1, n) * claim / (e^(claim*every) - 1), as each claim puts the next look
//	          off; about 1/every if claims are few. every = max(1/4 s, first/32), where
//	          first = 1/2 s + Waiting / Rate / (1+n) is when its first turn is. It costs a
//	          claim of one
//	census    per limit every 10 s: CensusMicros * records
//
// # Memory
//
//	records   of a limit: Processes * the sum for j = 1 to k of 1 - e^(-60*asks*P(N >= j-1)),
//	          with N of a Poisson distribution of mean asks*T: each call in the air
//	          has a record of its own, which is kept for a minute
//	state     per limit: State(records)
//	lists     per lined limit: List(Waiting/Limits, but at least 1) of those that wait, and
//	          List of those that were claimed in the last half second and Fill
//
// # Where the constants come from
//
// Micros and bytes are measured by -calibrate and stand in calibration.json. The
// other ones, above, are reserve's own. What is left out: that other processes' calls
// hold a trip up (so near a full core there are fewer and larger ones than this
// says), cancelled calls, and connections.
func demand(w workload, c calibration) []part {
	processes, limits, names := float64(w.Processes), float64(w.Limits), float64(w.Names)
	pairs := processes * limits
	calls := w.Rate / pairs
	lined := min(1, float64(w.Waiting)/limits)
	asks := asksOf(calls, w)
	rtt := w.RTT.Seconds()

	refresh := asks / (refreshSeconds*asks + 1)
	trips, perTrip := quickTrips((asks-refresh)*(1-lined)*limits/names, max(1, limits/names*(1-lined)), rtt, c)
	lineup := max(tripsOf(calls, rtt+c.LineUp.CPU.of(1)/1e6, 1), calls/mostRequests)
	claim := max(calls/(1+claimSeconds*calls), calls/mostRequests)

	each := float64(w.Waiting) / pairs
	every := max(lookSeconds, (claimAhead+float64(w.Waiting)/w.Rate/(1+each))/lookShare)
	look := min(1, each) * claim / math.Expm1(claim*every)

	census := min(1/censusSeconds, w.Rate/limits) * recordsOf(asks, w, c) * c.CensusMicros / 1e6
	return []part{
		newPart("quick", c.Quick, processes*names*trips, perTrip),
		newPart("refresh", c.Take, pairs*(1-lined)*refresh, 1+calls*rtt),
		newPart("lineup", c.LineUp, pairs*lined*lineup, calls/lineup),
		newPart("claim", c.Claim, pairs*lined*claim, calls/claim),
		newPart("look", c.Claim, pairs*lined*look, 1),
		{Name: "census", Script: limits * census, Cores: limits * census},
	}
}

// part is what one kind of script call asks of Redis.
type part struct {
	Name   string  `json:"name"`
	Trips  float64 `json:"calls_per_second"`
	Items  float64 `json:"items_per_call"` // limits of a quick call, else requests
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

// asksOf is how many of a pair's calls per second ask Redis.
func asksOf(calls float64, w workload) float64 {
	span := min(w.Lease, w.Fill/2).Seconds()
	if span <= 0 {
		return calls
	}
	return min(calls, 4/span)
}

// inAir is how many quick calls a process and name has in the air.
func inAir(rtt float64) float64 {
	if rtt < farTrip {
		return 1
	}
	return mostInAir
}

// tripsOf is how many trips of so many seconds carry asks of a rate.
func tripsOf(asks, seconds, inAir float64) float64 {
	if asks == 0 {
		return 0
	}
	during := asks * seconds / inAir
	return asks / (during + math.Exp(-during))
}

// quickTrips is how many quick calls per second carry asks of a rate for so many
// limits, and how many limits each has. The more it has, the longer it takes, the
// more ask meanwhile: the least solution, found from below.
func quickTrips(asks, limits, rtt float64, c calibration) (trips, perTrip float64) {
	perTrip = 1
	for range 10_000 {
		trips = tripsOf(asks, rtt+c.Quick.CPU.of(perTrip)/1e6, inAir(rtt))
		if trips == 0 {
			return 0, 0
		}
		next := min(distinct(asks/trips, limits), mostLimits)
		if next-perTrip <= 1e-9*perTrip {
			break
		}
		perTrip = next
	}
	return trips, perTrip
}

// distinct is how many of the limits n calls are for.
func distinct(n, limits float64) float64 {
	if limits <= 1 {
		return 1
	}
	return -limits * math.Expm1(n*math.Log1p(-1/limits))
}

// recordsOf is how many process records a limit has.
func recordsOf(asks float64, w workload, c calibration) float64 {
	rtt := w.RTT.Seconds()
	mean := asks * (rtt + c.Quick.CPU.of(1)/1e6)
	records, exactly, atLeast := 0.0, math.Exp(-mean), 1.0 // N is `others`, and at least that
	for others := range int(inAir(rtt)) {
		records -= math.Expm1(-aliveSeconds * asks * max(0, atLeast))
		atLeast -= exactly
		exactly *= mean / float64(others+1)
	}
	return float64(w.Processes) * records
}

// memoryOf is the data, in bytes, without what servers need when they are empty.
func memoryOf(w workload, c calibration) float64 {
	limits := float64(w.Limits)
	asks := asksOf(w.Rate/(float64(w.Processes)*limits), w)
	bytes := limits * c.State.of(recordsOf(asks, w, c))
	if w.Waiting > 0 {
		lined := min(limits, float64(w.Waiting))
		claimed := w.Rate / limits * (claimAhead + w.Fill.Seconds())
		bytes += lined * (c.List.of(float64(w.Waiting)/lined) + c.List.of(max(1, claimed)))
	}
	return bytes
}
