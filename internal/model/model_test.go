package model

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The model is held against the scripts in package lua. Here are the promises of
// the documentation that can be worked out by hand.

const second = 1_000_000

var perSecond = Limit{IntervalMicros: second, Burst: 1}

func (l *Line) takeAt(now int64, limit Limit, cost int64, id string) Grant {
	return l.Take(now, limit, Nobody, second, Request{Cost: cost, MaxWaitMicros: -1, ID: id}).Grants[0]
}

func TestAnUnusedLineIsAFullBucket(t *testing.T) {
	var l Line
	limit := Limit{IntervalMicros: second, Burst: 3}
	require.Equal(t, Grant{Final, 2, 0}, l.takeAt(5, limit, 2, "a"))
	require.Equal(t, Grant{Final, 3, 0}, l.takeAt(5, limit, 1, "b"))
	require.Equal(t, Grant{Final, 4, second}, l.takeAt(5, limit, 1, "c"))
	require.Equal(t, Grant{Waiting, 7, 4 * second}, l.takeAt(5, limit, 3, "d"), "it waits for its own permits")
}

func TestCancelledWaitsCostNothing(t *testing.T) {
	var l Line
	l.takeAt(0, perSecond, 1, "now")
	ids := []string{"a", "b", "c", "d", "e"}
	for _, id := range ids {
		l.takeAt(0, perSecond, 1, id)
	}
	require.Equal(t, Grant{Waiting, 7, 6 * second}, l.takeAt(0, perSecond, 1, "sixth"))
	require.Equal(t, []bool{true}, l.Cancel(0, perSecond, Nobody, Cancellation{Cost: 1, Epoch: 0, Number: 2}), "a was final")
	for _, id := range ids[1:] {
		require.Equal(t, []bool{true}, l.Cancel(0, perSecond, Nobody, Cancellation{Cost: 1, ID: id}))
		require.Equal(t, []bool{false}, l.Cancel(0, perSecond, Nobody, Cancellation{Cost: 1, ID: id}), "twice returns once")
	}
	reply := l.Claim(0, perSecond, Nobody, second, Ticket{Cost: 1, ID: "sixth"})
	require.Equal(t, []Grant{{Final, 2, second}}, reply.Grants)
	require.Equal(t, int64(2), l.Tail(), "nothing is left behind")
}

func TestALateLineIsWoundBack(t *testing.T) {
	var l Line
	l.takeAt(0, perSecond, 1, "now")
	l.takeAt(0, perSecond, 1, "soon")
	for _, id := range []string{"a", "b", "c", "d"} {
		l.takeAt(0, perSecond, 1, id)
	}
	now := int64(5.5 * second)
	reply := l.Claim(now, perSecond, Nobody, second, Ticket{Cost: 1, ID: "d"}, Ticket{Cost: 1, ID: "a"}, Ticket{Cost: 1, ID: "b"})
	require.Equal(t, []Grant{{Final, 3, 0}, {Final, 4, second}, {Waiting, 6, 3 * second}}, reply.Grants)
	require.Equal(t, int64(2), l.Floor())
}

func TestARateChangeKeepsTheOrder(t *testing.T) {
	var l Line
	for _, id := range []string{"now", "a", "b", "c"} {
		l.takeAt(0, perSecond, 1, id)
	}
	half := Limit{IntervalMicros: second / 2, Burst: 1}
	require.Equal(t, Inspection{Tail: 4, ReachMicros: 1.5 * second, WaitMicros: 2 * second, Limit: perSecond, Epoch: 0}, l.Inspect(0, half))
}

func TestTheLineGoesBackWithTheClock(t *testing.T) {
	var l Line
	const hour = 3600 * second
	l.takeAt(hour, perSecond, 1, "now")
	l.takeAt(hour, perSecond, 1, "soon")
	require.Equal(t, Grant{Waiting, 3, 2 * second}, l.takeAt(0, perSecond, 1, "a"))
	require.Equal(t, l.Final(), l.Floor())
}
