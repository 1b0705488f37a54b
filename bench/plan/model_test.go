package main

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// even has figures that can be checked in the head.
var even = calibration{
	Common:     verb{Script: linear{5, 5}, CPU: linear{20, 10}},
	Waiting:    verb{Script: linear{5, 20}, CPU: linear{20, 40}},
	Beat:       verb{Script: linear{20, 0.1}, CPU: linear{30, 0.1}},
	IdleScript: 2, IdleCPU: 2, ServerBytes: 1e6, State: 400, Lined: 500,
	Places: size{Packed: linear{200, 30}, Table: linear{1000, 120}, Most: 128},
	Name:   size{Packed: linear{300, 70}, Table: linear{1000, 200}, Most: 128},
}

func one(rate float64) workload {
	return workload{Rate: rate, Processes: 1, Limits: 1, Names: 1, Fill: 2 * time.Second, RTT: 470 * time.Microsecond}
}

func demandOf(w workload, c calibration) map[string]part {
	parts := make(map[string]part)
	for _, p := range demand(w, c) {
		parts[p.Name] = p
	}
	return parts
}

func TestFewCallsAreTheirOwnTrips(t *testing.T) {
	parts := demandOf(one(0.9), even)
	require.InDelta(t, 0.9, parts["common"].Trips, 1e-3)
	require.InDelta(t, 1, parts["common"].Items, 1e-3)
	require.InDelta(t, parts["common"].Trips*30e-6, parts["common"].Cores, 1e-7)
	require.Zero(t, parts["waiting"].Trips)
	require.InDelta(t, 1-math.Exp(-9), parts["beat"].Trips, 1e-9) // for 10 s after each call
}

func TestManyCallsShareTheTripInTheAir(t *testing.T) {
	w := one(1e7) // 470 µs on the way, 30 µs in Redis
	for trip, want := range map[time.Duration]float64{
		500 * time.Microsecond: 2000, time.Millisecond: 1000, 2 * time.Millisecond: 500, // near: one is in the air
		4 * time.Millisecond: 4000, 16 * time.Millisecond: 1000, 32 * time.Millisecond: 500, // far: 16 are
	} {
		w.RTT = trip - 30*time.Microsecond
		require.InDelta(t, want, demandOf(w, even)["common"].Trips, 0.01, trip)
	}
	w.Limits = 1000
	require.Equal(t, 90.0, demandOf(w, even)["common"].Items) // at most
	w.Limits = 7
	require.InDelta(t, 7, demandOf(w, even)["common"].Items, 1e-6)
}

func TestALeaseAsksFourTimesPerSpan(t *testing.T) {
	w := one(10_000)
	w.Lease = 100 * time.Millisecond
	ask := func() float64 { return demandOf(w, even)["common"].Trips }
	require.InDelta(t, 40, ask(), 0.01)
	w.Lease = time.Minute // half of the bucket is what counts
	require.InDelta(t, 4, ask(), 0.01)
	w.Rate = 0.5 // less than it would ask
	require.InDelta(t, 0.5, ask(), 0.01)
}

func TestCallsThatWaitAskTwicePerTurn(t *testing.T) {
	w := one(2)
	w.Waiting = 1000
	w.Lease = time.Second // of no use
	parts := demandOf(w, even)
	require.Zero(t, parts["common"].Trips)
	require.InDelta(t, 4, parts["waiting"].Trips, 0.01)
	require.InDelta(t, 1.5, parts["waiting"].Items, 0.01) // the second one brings another along
	require.InDelta(t, 1, parts["beat"].Trips, 1e-9)
	w.Rate = 1e6 // an ask has 12 calls at most
	require.InDelta(t, 3e6/12, demandOf(w, even)["waiting"].Trips, 1)
}

func TestCallsOfBothKindsShareTrips(t *testing.T) {
	w := one(4000)
	w.Limits, w.Waiting = 2, 1 // half of the limits
	parts := demandOf(w, even)
	require.Positive(t, parts["common"].Trips)
	require.InDelta(t, 2*parts["common"].Trips, parts["waiting"].Trips, 1e-6)
	require.Less(t, parts["common"].Trips+parts["waiting"].Trips, 1/w.RTT.Seconds())
}

// What a turn costs where calls wait does not grow with processes and keys, but for
// heartbeats.
func TestATurnCostsTheSameInLargeFleets(t *testing.T) {
	perTurn := func(g sized) (calls float64) {
		w := g.scenario().workload
		w.RTT = 300 * time.Microsecond
		parts := demandOf(w, even)
		return (parts["common"].Trips + parts["waiting"].Trips) / w.Rate
	}
	for _, g := range fleets {
		require.InDelta(t, perTurn(fleets[0]), perTurn(g), 0.05)
		require.LessOrEqual(t, perTurn(g), 2.)
	}
}

func TestMemory(t *testing.T) {
	w := one(1000)
	require.InDelta(t, 400+370, memoryOf(w, even), 1e-6)
	w.Processes = 200 // no longer packed
	require.InDelta(t, 400+1000+200*200, memoryOf(w, even), 1e-3)
	w = one(2)
	w.Waiting = 100
	require.InDelta(t, 500+370+200+100*30, memoryOf(w, even), 1e-6)
}

func TestShardsAndCost(t *testing.T) {
	p := plan{workload: workload{Names: 10}, terms: terms{Load: 0.5}, Cores: 2} // 0.2 per name: two on a shard
	p.shard()
	require.Equal(t, 5, p.Shards)
	require.InDelta(t, 0.4, p.Load, 1e-9)

	p.Cores = 8 // 0.8 per name: above -load, but no name can be split
	p.shard()
	require.Equal(t, 10, p.Shards)
	require.InDelta(t, 0.8, p.Load, 1e-9)

	full, err := newPlan(one(1000), terms{Price: 0.05, Load: 0.6}, even)
	require.NoError(t, err)
	require.Equal(t, 1, full.Shards)
	require.InDelta(t, 0.05*730.5, full.CostPerMonth, 1e-9)
	require.InDelta(t, 0.05/3.6, full.CostPerMillion, 1e-9) // 3.6 million calls an hour
}

func TestTooMuchForOneNameSaysHowMany(t *testing.T) {
	w := workload{Rate: 100_000, Processes: 50, Limits: 1000, Names: 1, Fill: time.Second, RTT: 500 * time.Microsecond}
	limits := terms{Load: 0.6}
	p, err := newPlan(w, limits, even)
	require.NoError(t, err)
	require.Greater(t, p.NamesNeeded, 1)
	require.Contains(t, p.Warnings[0], "split the limits")
	for names, fits := range map[int]bool{p.NamesNeeded: true, p.NamesNeeded - 1: false} {
		w.Names = names
		p, err := newPlan(w, limits, even)
		require.NoError(t, err)
		require.Equal(t, fits, p.Load <= limits.Load)
	}
}

// random is any workload that a plan can be asked for.
func random(r *rand.Rand) workload {
	between := func(low, high float64) float64 { return low * math.Pow(high/low, r.Float64()) }
	w := workload{
		Rate:      between(0.01, 1e6),
		Processes: int(between(1, 5000)),
		Limits:    int(between(1, 1e5)),
		Fill:      time.Duration(between(1e6, 1e12)),
		RTT:       time.Duration(between(1e4, 1e9)),
	}
	w.Names = int(between(1, float64(w.Limits)))
	if r.IntN(2) == 0 {
		w.Lease = time.Duration(between(1e6, 6e10))
	}
	if r.IntN(2) == 0 {
		w.Waiting = int(between(1, 1e6))
	}
	return w
}

func TestWhatHoldsForEachWorkload(t *testing.T) {
	c, err := readCalibration("")
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(1, 0))
	const slip = 1 + 1e-6 // where figures are found step by step
	for range 500 {
		w := random(r)
		limits := terms{Price: r.Float64(), Load: 0.1 + 0.9*r.Float64()}
		p, err := newPlan(w, limits, c)
		require.NoError(t, err, "%+v", w)

		parts := demandOf(w, c)
		for name, part := range parts {
			for _, x := range []float64{part.Trips, part.Items, part.Script, part.Cores} {
				require.False(t, math.IsNaN(x) || math.IsInf(x, 0) || x < 0, "%s %+v of %+v", name, part, w)
			}
		}
		require.LessOrEqual(t, parts["common"].Trips+parts["waiting"].Trips, 2*w.Rate*slip, "%+v", w)
		require.LessOrEqual(t, parts["beat"].Trips, float64(w.Processes*w.Names)*slip, "%+v", w)

		// Each shard has a name at least, and together they carry the load.
		require.LessOrEqual(t, p.Shards, w.Names)
		require.GreaterOrEqual(t, p.Load*float64(p.Shards)*slip, p.Cores, "%+v", w)
		if p.NamesNeeded > 0 && w.Names >= p.NamesNeeded {
			require.LessOrEqual(t, p.Load, limits.Load*slip, "%+v", w)
		}

		more := w
		more.Rate *= 1 + r.Float64()
		require.LessOrEqual(t, p.Cores, coresOf(more, c)*slip, "more calls, fewer cores: %+v", w)
		require.LessOrEqual(t, memoryOf(w, c), memoryOf(more, c)*slip, "more calls, less memory: %+v", w)

		if w.Lease > 0 {
			longer := w
			longer.Lease = min(time.Minute, w.Lease+time.Duration(r.Int64N(int64(time.Second))))
			// Not fewer cores in any case: where trips are full, fewer asks make smaller ones.
			later := demandOf(longer, c)["common"]
			require.LessOrEqual(t, later.Trips*later.Items, parts["common"].Trips*parts["common"].Items*slip, "a longer lease, more asks: %+v", w)
		}
	}
}

// simulate plays one process and name: calls for random limits at random moments, one
// trip in the air, with up to 90 limits. It returns trips per second and limits per trip.
func simulate(r *rand.Rand, asks float64, limits int, rtt float64, c calibration) (trips, perTrip float64) {
	const wanted = 5000
	now, next := 0., r.ExpFloat64()/asks
	var pending []int // limits, in order of their first call
	waits := make(map[int]bool)
	arrive := func() {
		if limit := r.IntN(limits); !waits[limit] {
			waits[limit] = true
			pending = append(pending, limit)
		}
		next += r.ExpFloat64() / asks
	}
	visits := 0
	for range wanted {
		if len(pending) == 0 {
			now = next
			arrive()
		}
		batch := min(mostLimits, len(pending))
		for _, limit := range pending[:batch] {
			delete(waits, limit)
		}
		pending = pending[batch:]
		visits += batch
		now += rtt + c.Common.CPU.of(float64(batch))/1e6
		for next <= now {
			arrive()
		}
	}
	return wanted / now, float64(visits) / wanted
}

// The closed formula says what happens, not only what is plausible.
func TestGroupCommitIsAsSimulated(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	c := even
	c.Common.CPU.Each = 2
	for _, limits := range []int{1, 5, 50, 1000} {
		for _, asks := range []float64{10, 300, 2000, 10_000, 60_000} {
			for _, rtt := range []time.Duration{100 * time.Microsecond, 700 * time.Microsecond} {
				trips, _, perTrip, _ := stream{common: asks, limits: float64(limits)}.trips(rtt.Seconds(), c)
				gotTrips, gotPerTrip := simulate(r, asks, limits, rtt.Seconds(), c)
				const near = 0.12 // most where limits are some more than a trip's calls
				require.InEpsilon(t, gotTrips, trips, near, "trips: %d limits, %g asks/s, %v", limits, asks, rtt)
				require.InEpsilon(t, gotPerTrip, perTrip, near, "limits per trip: %d limits, %g asks/s, %v", limits, asks, rtt)
			}
		}
	}
}
