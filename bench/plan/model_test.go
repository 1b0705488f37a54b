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
	Quick:        verb{Script: linear{5, 5}, CPU: linear{20, 10}},
	Take:         verb{Script: linear{50, 5}, CPU: linear{90, 10}},
	LineUp:       verb{Script: linear{50, 5}, CPU: linear{90, 10}},
	Claim:        verb{Script: linear{50, 5}, CPU: linear{80, 20}},
	CensusMicros: 1, IdleScript: 2, IdleCPU: 2, ServerBytes: 1e6,
	State: size{Packed: linear{400, 60}, Table: linear{1000, 130}, Most: 100},
	List:  size{Packed: linear{200, 30}, Table: linear{1000, 120}, Most: 128},
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
	require.InDelta(t, 0.9, parts["quick"].Trips+parts["refresh"].Trips, 1e-3)
	require.InDelta(t, 0.9/(22*0.9+1), parts["refresh"].Trips, 1e-9) // every 22 s, and then the next call
	require.Equal(t, 1.0, parts["quick"].Items)
	require.InDelta(t, parts["quick"].Trips*30e-6, parts["quick"].Cores, 1e-9)
	require.Zero(t, parts["lineup"].Trips)
	require.Zero(t, parts["claim"].Trips)
}

func TestManyCallsShareTheTripInTheAir(t *testing.T) {
	parts := demandOf(one(1e6), even)
	require.InDelta(t, 2000, parts["quick"].Trips, 0.01) // 470 µs on the way, 30 µs in Redis
	require.InDelta(t, 1.0/22, parts["refresh"].Trips, 1e-6)
}

func TestLongTripsOverlap(t *testing.T) {
	w := one(1e7)
	for trip, want := range map[time.Duration]float64{
		500 * time.Microsecond: 2000, time.Millisecond: 1000, 2 * time.Millisecond: 500, // near: one is in the air
		4 * time.Millisecond: 4000, 16 * time.Millisecond: 1000, 32 * time.Millisecond: 500, // far: 16 are
	} {
		w.RTT = trip - 30*time.Microsecond
		require.InDelta(t, want, demandOf(w, even)["quick"].Trips, 0.01, trip)
	}
}

func TestATripHasAHundredLimitsAtMost(t *testing.T) {
	w := one(1e7)
	w.Limits = 1000
	require.Equal(t, 100.0, demandOf(w, even)["quick"].Items)
	w.Limits = 7
	require.InDelta(t, 7, demandOf(w, even)["quick"].Items, 1e-6)
}

func TestALeaseAsksFourTimesPerSpan(t *testing.T) {
	w := one(10_000)
	w.Lease = 100 * time.Millisecond
	ask := func() float64 { p := demandOf(w, even); return p["quick"].Trips + p["refresh"].Trips }
	require.InDelta(t, 40, ask(), 0.01)
	w.Lease = time.Minute // half of the bucket is what counts
	require.InDelta(t, 4, ask(), 0.01)
	w.Rate = 0.5 // less than it would ask
	require.InDelta(t, 0.5, ask(), 0.01)
}

func TestNumbersThatWaitAreTakenAndClaimed(t *testing.T) {
	w := one(8)
	w.Waiting = 100
	w.Lease = time.Second // of no use
	parts := demandOf(w, even)
	require.Zero(t, parts["quick"].Trips)
	require.Zero(t, parts["refresh"].Trips)
	require.InDelta(t, 8, parts["lineup"].Trips, 0.01)
	require.InDelta(t, 4, parts["claim"].Trips, 1e-9) // each with the next eighth of a second's
	require.InDelta(t, 2, parts["claim"].Items, 1e-9)

	w.Rate = 1e6 // a claim or take has 256 at most
	parts = demandOf(w, even)
	require.InDelta(t, 1e6/256, parts["claim"].Trips, 1e-6)
	require.InDelta(t, 256, parts["lineup"].Items, 1e-6)
}

func TestWhoWaitsLooks(t *testing.T) {
	w := one(0.01)
	w.Waiting = 1 // its turn comes in 50.5 s, as half of those of a line of 100 s
	require.InDelta(t, 32/50.5, demandOf(w, even)["look"].Trips, 0.01)
	w.Rate = 1
	w.Waiting = 10
	look := demandOf(w, even)["look"].Trips // every 1/4 s, while none of 0.9 claims puts it off
	require.Greater(t, look, 3.)
	require.Less(t, look, 4.)
	w.Rate = 1000 // claims are all the time
	require.Less(t, demandOf(w, even)["look"].Trips, 1.5)
	w.Waiting = 0
	require.Zero(t, demandOf(w, even)["look"].Trips)
}

func TestMemory(t *testing.T) {
	w := one(1000)
	require.InDelta(t, 400+60, memoryOf(w, even), 1e-6)
	w.Processes = 200 // no longer packed
	require.InDelta(t, 1000+200*130, memoryOf(w, even), 1e-3)
	w = one(2)
	w.Waiting = 100 // and the 5 of the last 2.5 s
	require.InDelta(t, 460+200+100*30+200+5*30, memoryOf(w, even), 1e-6)
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
	require.NotEmpty(t, p.Warnings)
	require.Contains(t, p.Warnings[0], "split the limits")

	w.Names = p.NamesNeeded
	p, err = newPlan(w, limits, even)
	require.NoError(t, err)
	require.LessOrEqual(t, p.Load, limits.Load)

	w.Names--
	p, err = newPlan(w, limits, even)
	require.NoError(t, err)
	require.Greater(t, p.Load, limits.Load)
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
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const slip = 1 + 1e-6 // where figures are found step by step
	for range 500 {
		w := random(r)
		limits := terms{Price: r.Float64(), Load: 0.1 + 0.9*r.Float64()}
		p, err := newPlan(w, limits, c)
		require.NoError(t, err, "%+v", w)

		parts := demandOf(w, c)
		processes := float64(w.Processes * w.Names)
		for name, part := range parts {
			for _, x := range []float64{part.Trips, part.Items, part.Script, part.Cores} {
				require.False(t, math.IsNaN(x) || math.IsInf(x, 0) || x < 0, "%s %+v of %+v", name, part, w)
			}
		}
		require.LessOrEqual(t, parts["quick"].Trips, w.Rate*slip, "%+v", w)
		require.LessOrEqual(t, parts["quick"].Trips, processes*inAir(w.RTT.Seconds())/w.RTT.Seconds()*slip, "%+v", w)
		require.LessOrEqual(t, parts["quick"].Items, 100.0, "%+v", w)

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

		longer := w
		longer.Lease = min(time.Minute, w.Lease+time.Duration(r.Int64N(int64(time.Second))))
		require.LessOrEqual(t, coresOf(longer, c), p.Cores*slip, "a longer lease, more cores: %+v", w)

		split := w
		split.Names = min(w.Limits, 2*w.Names)
		require.LessOrEqual(t, p.Cores, coresOf(split, c)*slip, "more names, fewer cores: %+v", w)
	}
}
