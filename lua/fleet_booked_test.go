package lua

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
)

// crowd is calls with IDs, and when each of them was made.
type crowd struct {
	*simulation
	calls []*simCall
	order []*simCall // as they were made
	made  map[*simCall]float64
}

// come lets so many calls come, one after the other.
func (s *simulation) come(calls int, from, every, patience float64, dead bool) *crowd {
	c := &crowd{simulation: s, made: map[*simCall]float64{}}
	for n := range calls {
		s.after(from+float64(n)*every, func() {
			call := s.identified(n%4, patience, func(call *simCall) {
				c.made[call] = s.now
				c.order = append(c.order, call)
			})
			call.gone = dead
			c.calls = append(c.calls, call)
		})
	}
	return c
}

// done is how many seconds after the start the last one was made.
func (c *crowd) done() (seconds float64) {
	c.Helper()
	require.Len(c, c.made, len(c.calls), "nobody is forgotten")
	for _, at := range c.made {
		seconds = max(seconds, (at-startMicros)/second)
	}
	return seconds
}

func ids(calls []*simCall) (ids []string) {
	for _, c := range calls {
		ids = append(ids, c.id)
	}
	return ids
}

func (c *crowd) mostComings() (most int) {
	for _, call := range c.calls {
		most = max(most, call.comings)
	}
	return most
}

// Rule 4: 900 calls that were booked and never come back cost those behind them nothing.
func TestBookingsThatNeverComeBackCostNothing(t *testing.T) {
	for what, later := range map[string]float64{"at once": 1000, "a minute later": 60 * second} {
		t.Run(what, func(t *testing.T) {
			s := newSimulation(t, 1000, queuemodel.Limit{Kind: "p", A: second / 10, B: 1})
			dead := s.come(900, 0, 1, -1, true)
			live := s.come(100, 900+later, 1, 1.5*second, false)
			s.run(180)
			took := live.done() - (900+later)/second
			t.Logf("%.2f s, at most %d comings, %.1f asks per call", took, live.mostComings(), float64(s.asks-900)/100)
			require.Zero(t, s.refused)
			require.Empty(t, dead.made)
			require.LessOrEqual(t, took, 11.0)
			require.LessOrEqual(t, live.mostComings(), 2)
		})
	}
}

// Calls that come back half a second before the time that they were told are made in the
// order in which they were booked, use all of the limit, and come once for being booked and
// once for their turn.
func TestBookedCallsComeBackOnce(t *testing.T) {
	for what, patience := range map[string]float64{"booked beforehand": -1, "some patience": 1.5 * second} {
		t.Run(what, func(t *testing.T) {
			s := newSimulation(t, 1000, queuemodel.Limit{Kind: "p", A: second / 50, B: 1})
			c := s.come(500, 0, 1, patience, false)
			s.run(30)
			used := float64(len(c.calls)) / 50 / c.done()
			t.Logf("used %.3f, %.1f asks per call", used, float64(s.asks)/500)
			require.Zero(t, s.refused)
			require.Equal(t, ids(c.calls), ids(c.order), "order of turns")
			require.LessOrEqual(t, c.mostComings(), 2)
			require.GreaterOrEqual(t, used, 0.98)
		})
	}
}

// Newcomers are told to come behind those that are booked, and are made behind them.
func TestNewcomersComeBehindTheBooked(t *testing.T) {
	for what, later := range map[string]float64{"at once": 2000, "in the middle": 3 * second} {
		t.Run(what, func(t *testing.T) {
			s := newSimulation(t, 1000, queuemodel.Limit{Kind: "p", A: second / 50, B: 1})
			booked := s.come(500, 0, 1, -1, false)
			late := s.come(50, later, 20000, 1.5*second, false)
			s.run(30)
			require.Zero(t, s.refused)
			for n, c := range late.calls {
				require.InDelta(t, startMicros+10*second+float64(n)*second/50, c.told, 0.3*second, "newcomer %d", n)
			}
			require.LessOrEqual(t, booked.done(), 10.2)
			require.LessOrEqual(t, late.done(), 11.2)
			require.Equal(t, ids(booked.calls), ids(booked.order))
			require.Equal(t, ids(late.calls), ids(late.order))
			require.Greater(t, late.made[late.order[0]], booked.made[booked.order[499]])
			require.LessOrEqual(t, max(booked.mostComings(), late.mostComings()), 2)
		})
	}
}
