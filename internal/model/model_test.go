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
	// a has what was b's, and b has d's. It is to claim c's, if c does not come for that.
	require.Equal(t, []Grant{{Final, 3, 0}, {Final, 4, second}, {Waiting, 5, 2 * second}}, reply.Grants)
	require.Equal(t, []Ticket{{5, 1, "c"}, {6, 1, "b"}}, l.Waiting())
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

var me = Caller{ReachMicros: -LongestMicros, Member: "me", Serial: 1}

// after is what a caller says next to a line that is made at 0.
func (c Caller) after(now int64, l *Line) Caller {
	seen, serial, _ := l.Member(c.Member)
	c.Epoch, c.SeenMicros, c.LastSerial, c.Serial, c.ClockMicros = l.Epoch(), seen, serial, serial+1, float64(now)
	c.Live = l.Live()
	return c
}

func TestAQuickIsATakeInARow(t *testing.T) {
	limit := Limit{IntervalMicros: second, Burst: 3}
	for _, now := range []int64{1, second / 2, 2 * second, 60 * second} {
		var quick Line
		quick.Take(1, limit, me, second, Request{Cost: 2, MaxWaitMicros: -1, ID: "a"})
		took := quick.Clone()

		// A little earlier the take counts nobody either.
		c := me.after(now, &quick)
		took.counted = now
		quick.counted = now
		given := quick.Quick(now, limit, c, Row{Permits: 3, SlackMicros: 60 * second})
		reply := took.Take(now, limit, c, 60*second, Request{2, -1, "b", false}, Request{1, -1, "c", false})
		require.Equal(t, given.Before+2, reply.Grants[0].Number)
		require.Equal(t, given.Before+3, reply.Grants[1].Number)
		require.Equal(t, reply.Idle, given.Idle)

		// And asked once more, one replies what the other does.
		again := quick.Take(now+5, limit, c, 60*second, Request{2, -1, "b", false}, Request{1, -1, "c", false})
		require.Equal(t, took.Take(now+5, limit, c, 60*second, Request{2, -1, "b", false}, Request{1, -1, "c", false}), again)
		require.Equal(t, took, &quick)
	}
}

// Extra permits do not let through more than the bucket holds: not even if they are
// used when all others are taken at the last moment for which they were promised.
func TestExtraPermitsFitWhileTheyLast(t *testing.T) {
	for burst := int64(2); burst <= 12; burst++ {
		for extra := int64(1); extra < burst; extra++ {
			for lasting := int64(1); lasting <= 13; lasting++ {
				limit, last := Limit{IntervalMicros: second, Burst: burst}, float64(lasting)*second/2
				var l Line
				now := int64(1000 * second)
				l.Take(now-burst*second-5, limit, me, second, Request{Cost: burst, MaxWaitMicros: -1, ID: "a"})
				given := l.Quick(now, limit, me.after(now, &l), Row{Permits: 1, SlackMicros: second, Extra: extra, LastingMicros: last})
				fits := float64(1+extra)*second <= float64(burst)*second-last
				require.Equal(t, map[bool]int64{true: extra, false: 0}[fits], given.Permits-1)

				then := now + int64(last)
				for n := given.Before + 2; n <= given.Before+given.Permits; n++ {
					require.LessOrEqual(t, float64(then), l.LateAt(n, 1))
				}
				free := int64(0) // that somebody else finds then
				for l.Take(then, limit, Nobody, 0, Request{Cost: 1, ID: "x"}).Grants[0].Status == Final {
					free++
				}
				// The one that was used at first is in the bucket again as far as time went on.
				require.LessOrEqual(t, free+given.Permits-1, burst, "burst %d, extra %d, lasting %v", burst, extra, last)
			}
		}
	}
}
