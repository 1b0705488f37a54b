package lua

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
)

func single(cost float64) func() []queuemodel.Part {
	return func() []queuemodel.Part { return []queuemodel.Part{{Cost: cost}} }
}

func shorter(seconds float64) float64 {
	if raceDetector {
		return seconds / 4
	}
	return seconds
}

// Whoever waits gets its turn, the limit is used, and a strict provider refuses nothing.
func TestFleetsUseTheirLimit(t *testing.T) {
	for _, c := range []struct {
		what             string
		rate             float64
		burst            float64
		process, callers int
		seconds, rtt     float64
		cancel           float64
		kill             []float64
		heavy            float64 // one in five calls costs so much
		used             float64
	}{
		{what: "steady", rate: 100, burst: 1, process: 4, callers: 50, seconds: 15, rtt: 1000, used: 0.99},
		{what: "a burst", rate: 100, burst: 10, process: 4, callers: 50, seconds: 15, rtt: 1000, used: 0.99},
		{what: "slow", rate: 1, burst: 1, process: 4, callers: 10, seconds: 200, rtt: 1000, used: 0.99},
		{what: "far away", rate: 100, burst: 1, process: 4, callers: 50, seconds: 15, rtt: 50000, used: 0.98},
		{what: "heavy calls", rate: 100, burst: 10, process: 4, callers: 50, seconds: 15, rtt: 1000, heavy: 10, used: 0.98},
		{what: "a third gives up", rate: 20, burst: 1, process: 4, callers: 30, seconds: 60, rtt: 1000, cancel: 0.33, used: 0.98},
		{what: "two of four are killed", rate: 100, burst: 1, process: 4, callers: 60, seconds: 30, rtt: 1000, kill: []float64{10, 15}, used: 0.93},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			if raceDetector { // nothing here runs at the same time, and miniredis is slow
				c.seconds /= 4
				for p := range c.kill {
					c.kill[p] /= 4
				}
				c.used -= 0.1 * float64(len(c.kill))
			}
			s := newSimulation(t, c.rtt, queuemodel.Limit{Kind: "p", A: second / c.rate, B: c.burst})
			for p := range c.process {
				s.closed(p, c.callers, func() []queuemodel.Part {
					if c.heavy > 0 && s.IntN(5) == 0 {
						return single(c.heavy)()
					}
					return single(1)()
				}, c.cancel)
			}
			for p, at := range c.kill {
				s.after(at*second, func() { s.kill(p) })
			}
			s.run(c.seconds)
			used := s.turns[0] / c.rate / c.seconds
			t.Logf("used %.3f, %.1f asks per turn, refused %d", used, float64(s.asks)/s.turns[0], s.refused)
			require.Zero(t, s.refused)
			require.GreaterOrEqual(t, used, c.used)
		})
	}
}

// Calls have their turns in the order in which they came, whichever process they wait in.
func TestFirstComeFirstServed(t *testing.T) {
	s := newSimulation(t, 1000, queuemodel.Limit{Kind: "p", A: 20000, B: 1})
	var made []float64
	for n := range 500 {
		s.after(float64(n)*2000, func() {
			s.call(n%4, single(1)(), func(c *simCall) { made = append(made, c.born) })
		})
	}
	s.run(20)
	require.Len(t, made, 500, "nobody is forgotten")
	late := 0
	for i := range made {
		if i > 0 && made[i] < made[i-1] {
			late++
		}
	}
	require.Zero(t, s.refused)
	require.LessOrEqual(t, late, 5, "out of order")
}

// Tenants under an account: where the account holds all back, all of it is used; a tenant's
// own limit takes nothing from the others.
func TestTenantsUnderAnAccount(t *testing.T) {
	const tenants = 20
	seconds := shorter(30)
	limits := []queuemodel.Limit{{Kind: "p", A: second / 30, B: 3}}
	for range tenants {
		limits = append(limits, queuemodel.Limit{Kind: "p", A: second / 2, B: 2})
	}
	s := newSimulation(t, 1000, limits...)
	for n := range tenants {
		for k := range 100 {
			s.after(float64(k)*1000, func() {
				s.call(n%4, []queuemodel.Part{{Limit: 1 + n, Cost: 1}, {Limit: 0, Cost: 1}}, nil)
			})
		}
	}
	s.run(seconds)
	used := s.turns[0] / 30 / seconds
	t.Logf("used %.3f, least %v, most %v, %.1f asks per turn", used, slices.Min(s.turns[1:]), slices.Max(s.turns[1:]), float64(s.asks)/s.turns[0])
	require.Zero(t, s.refused)
	require.GreaterOrEqual(t, used, 0.95)
}

// Rule 5: where one tenant's calls wait for its own slow limit, the account's permits are not
// spent for them ahead of time: another caller keeps the account nearly whole.
func TestSlowTenantLeavesTheAccountToOthers(t *testing.T) {
	seconds := shorter(20)
	s := newSimulation(t, 1000,
		queuemodel.Limit{Kind: "p", A: second / 100, B: 1}, queuemodel.Limit{Kind: "p", A: second / 5, B: 1})
	for range 150 {
		s.after(0, func() { s.call(0, []queuemodel.Part{{Limit: 1, Cost: 1}, {Limit: 0, Cost: 1}}, nil) })
	}
	s.closed(1, 1, single(1), 0)
	s.run(seconds)
	others := s.turns[0] - s.turns[1]
	t.Logf("the tenant %v/s, the others %v/s", s.turns[1]/seconds, others/seconds)
	require.Zero(t, s.refused)
	require.GreaterOrEqual(t, others/seconds, 85.0)
	require.GreaterOrEqual(t, s.turns[1]/seconds, 4.5, "and the tenant has its own")
}

// Rule 2: ten turns of a full bucket that nobody uses for nine intervals are over.
func TestTurnsOfAFullBucketAreOverAtOnce(t *testing.T) {
	s := newSimulation(t, 0, queuemodel.Limit{Kind: "p", A: second, B: 10})
	_, answers, err := s.server.Ask(s.caller(0), s.knows(0), []queuemodel.Item{{Count: 10, Number: 1, Parts: single(1)()}})
	require.NoError(t, err)
	for k, a := range answers {
		require.Equal(t, 1, a.Status)
		require.Zero(t, a.Wait)
		require.Equal(t, float64(k)*second, a.Usable, "what is held for longer would overflow")
	}
}

// Rule 1: a cost above a burst that was lowered is refused, and tells what is in force.
func TestCostAboveALoweredBurst(t *testing.T) {
	s := newSimulation(t, 0, queuemodel.Limit{Kind: "p", A: second, B: 10})
	_, err := s.server.Set(s.caller(0), s.knows(0), second, 3, 0)
	require.NoError(t, err)
	_, answers, err := s.server.Ask(s.caller(0), s.knows(0), []queuemodel.Item{{Count: 1, Number: 1, Parts: single(5)()}})
	require.NoError(t, err)
	require.Equal(t, 2, answers[0].Status)
}

// A quota is used in each of its windows, and a second limit beside it holds.
func TestQuotaUnderARate(t *testing.T) {
	seconds := shorter(20)
	s := newSimulation(t, 1000, queuemodel.Limit{Kind: "q", A: 100, B: 2000}, queuemodel.Limit{Kind: "p", A: second / 50, B: 5})
	for n := range 1000 {
		s.after(float64(n), func() { s.call(n%4, []queuemodel.Part{{Limit: 0, Cost: 1}, {Limit: 1, Cost: 1}}, nil) })
	}
	s.run(seconds)
	windows := math.Floor(seconds * second / windowMicros)
	t.Logf("%v calls in %v windows, %.1f asks per turn", s.turns[0], windows, float64(s.asks)/s.turns[0])
	require.Zero(t, s.refused)
	require.GreaterOrEqual(t, s.turns[0], 100*windows*0.98)
}
