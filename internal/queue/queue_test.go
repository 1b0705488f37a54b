package queue

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	start   = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	errLate = errors.New("late")
)

func after(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

// held is a queue with calls that joined in order, and have places but for the first few, by
// their forecasts in seconds.
func held(calls int, forecasts ...float64) (*Queue, []*Call) {
	q := &Queue{Limits: 1, Missed: func(time.Time, time.Time, int) error { return errLate }}
	var all []*Call
	for range calls {
		c := NewCall()
		q.Join(c, start)
		all = append(all, c)
	}
	ask := q.Next(start, times, 100)
	for i, f := range forecasts {
		q.Placed(&Place{Number: int64(i), Tags: []int64{int64(i)}}, after(f), start)
	}
	q.Lost(Ask{New: ask.New - len(forecasts)})
	return q, all
}

var times = Times{Lead: 100 * time.Millisecond, Near: 5 * time.Millisecond, Horizon: 300 * time.Millisecond}

func numbers(places []*Place) (n []int64) {
	for _, p := range places {
		n = append(n, p.Number)
	}
	return n
}

func turn(due float64, number int64) *Turn {
	return &Turn{Due: after(due), Until: after(due + 1), Process: "p", Number: number, Tags: []int64{number}, Ask: "p 1", Alone: true}
}

func TestTurnsGoToTheFirst(t *testing.T) {
	q, calls := held(3, 1, 2, 3)
	q.Reached(q.places[1], turn(2, 1), start) // whichever call it was asked for
	require.NotNil(t, q.TurnOf(calls[0]))
	require.Nil(t, q.TurnOf(calls[1]))
	require.Equal(t, Event{}, <-calls[0].Wake, "its turn has changed")
	require.Equal(t, 2, q.Waiting())

	q.Reached(q.places[0], turn(0, 0), start)
	require.NotNil(t, (<-calls[1].Wake).Turn, "one that is due is used at once")
}

func TestWhoGivesUpLeavesTheLastPlace(t *testing.T) {
	q, calls := held(3, 1, 2, 3)
	require.True(t, q.Leave(calls[0], start))
	require.False(t, q.Leave(calls[0], start), "its wait is over")
	require.True(t, q.Loose())
	require.Equal(t, []int64{2}, numbers(q.Spare()))
	require.Equal(t, []int64{0, 1}, numbers(q.places))

	q.Leave(calls[1], start)
	q.Join(NewCall(), start)
	require.Empty(t, q.Spare(), "who comes at once has the place")

	q.Leave(calls[2], start)
	hasty := NewCall()
	hasty.Deadline = after(1.5)
	q.Join(hasty, start)
	require.Equal(t, errLate, (<-hasty.Wake).Err, "but not if it comes too late for it")
	require.Len(t, q.Spare(), 1)
}

func TestWhoGivesUpItsTurnMovesThoseBehindForward(t *testing.T) {
	q, calls := held(4, 1, 2, 3, 4)
	for k, p := range slices.Clone(q.places[:3]) {
		q.Reached(p, turn(float64(k+1), int64(k)), start)
	}
	q.Leave(calls[0], start)
	require.Equal(t, after(1), q.TurnOf(calls[1]).Due)
	require.Equal(t, after(2), q.TurnOf(calls[2]).Due)
	require.Equal(t, after(3), q.TurnOf(calls[3]).Due, "the first that waited has the last turn")
	require.Equal(t, []int64{3}, numbers(q.Spare()))

	q.Leave(calls[3], start)
	require.Len(t, q.Unused(), 1, "nobody needs it")
}

// A turn goes back with those that the same ask was given after it. So it must not if one of
// them was used, as it can be where its call leaves when it is due, or is still out.
func TestATurnGoesBackWithThoseAfterItOnly(t *testing.T) {
	for last := range 3 {
		q, calls := held(3, 1, 2, 3)
		var spent, out int64 = 0, 3
		for k, p := range slices.Clone(q.places) {
			turn := turn(float64(k+1), int64(k))
			turn.Ask, turn.Permit, turn.Spent, turn.Out = "p 1", int64(k+1), &spent, &out
			q.Reached(p, turn, start)
		}
		require.True(t, q.Use(calls[last], q.TurnOf(calls[last])))
		for k := range calls {
			q.Leave(calls[k], start)
		}
		for _, unused := range q.Unused() {
			require.Equal(t, unused.Permit > int64(last+1), unused.GoBack(1), "turn %d of 3, where %d was used", unused.Permit, last+1)
		}
	}
	var spent, out int64 = 0, 2
	one := &Turn{Ask: "p 1", Permit: 1, Spent: &spent, Out: &out}
	other := &Turn{Ask: "p 1", Permit: 2, Spent: &spent, Out: &out}
	require.False(t, one.GoBack(1), "another queue has the other")
	require.True(t, other.GoBack(1))
	require.True(t, one.GoBack(1))
}

// A pause of an hour ends: the first place is asked for, and the second, which is to tell how
// far the others are. It is given a turn, so the next ones ask, in growing numbers, until one is given
// none.
func TestMoreAskForAsLongAsTurnsComeSooner(t *testing.T) {
	q, _ := held(12, 3600, 3601, 3602, 3603, 3604, 3605, 3606, 3607, 3608, 3609, 3610, 3611)
	q.Refresh(1)
	reached := func(n ...int64) {
		ask := q.Next(start, times, 100)
		require.Equal(t, n, numbers(ask.Places))
		for _, p := range ask.Places {
			q.Reached(p, turn(0.2, p.Number), start)
		}
	}
	reached(0, 1)
	reached(2, 3, 4, 5, 6)
	ask := q.Next(start, times, 2)
	require.Equal(t, []int64{7, 8}, numbers(ask.Places))
	q.Moved(ask.Places[0], after(10), start, times.Lead)
	q.Moved(ask.Places[1], after(11), start, times.Lead)
	require.Empty(t, q.Next(start, times, 100).Places)
	when, ok := q.When(times)
	require.True(t, ok)
	require.Equal(t, after(9.9), when)
}

// What a place hears is of its limit, and moves no forecast of another one.
func TestEachLimitHasItsForecasts(t *testing.T) {
	q, _ := held(6, 1, 20, 1.05, 21, 1.5, 22)
	q.Limits = 2
	for i, p := range q.places {
		p.Slowest = i % 2
	}
	when, _ := q.When(times)
	require.Equal(t, after(0.9), when)
	ask := q.Next(after(0.96), times, 100)
	require.Equal(t, []int64{0, 2, 4}, numbers(ask.Places))
	q.Waits(ask.Places[2], 0)
	q.Moved(ask.Places[2], after(1.6), after(1), times.Lead)
	require.Equal(t, after(22), q.places[5].forecast)

	q.RefreshAt(1, 1) // the one with the latest forecast but one is due, behind one at another limit that is not
	ask = q.Next(after(1), times, 100)
	require.Equal(t, []int64{1, 3}, numbers(ask.Places))
	q.Moved(ask.Places[0], after(10), after(1), times.Lead)
	q.Waits(ask.Places[1], 0)
	q.Moved(ask.Places[1], after(2), after(1), times.Lead)
	require.Equal(t, after(22), q.places[5].forecast, "it heard nothing of the limit where that waits")
}

func TestAnUnusedTurnIsForWhoComesNext(t *testing.T) {
	q, calls := held(1, 1)
	q.Reached(q.places[0], turn(1, 0), start)
	q.Leave(calls[0], start)
	c := NewCall()
	q.Join(c, after(0.5))
	require.Equal(t, after(1), q.TurnOf(c).Due)
	require.Empty(t, q.Unused())

	q.Leave(c, after(0.5))
	late := NewCall()
	q.Join(late, after(5))
	require.Nil(t, q.TurnOf(late), "that is over")
}

func TestAnOversleptTurnIsAskedForAnewAndFirst(t *testing.T) {
	q, calls := held(3, 1, 2, 3)
	q.Reached(q.places[0], turn(1, 0), start)
	mine := q.TurnOf(calls[0])
	require.True(t, q.Use(calls[0], mine))
	q.Return(calls[0], mine, after(9))
	ask := q.Next(after(9), times, 100)
	require.Equal(t, []int64{0, 1, 2}, numbers(ask.Places))
	require.Equal(t, "p 1", ask.Places[0].Back, "the turn goes back")
	q.Reached(ask.Places[0], turn(9, 0), after(9))
	require.NotNil(t, (<-calls[0].Wake).Turn)
}

func TestVoidTurnsAreAskedForAnewInOrder(t *testing.T) {
	q, calls := held(3, 1, 2, 3)
	for _, p := range slices.Clone(q.places[:2]) {
		given := turn(1+float64(p.Number), p.Number)
		given.Given = 10 + p.Number
		q.Reached(p, given, start)
	}
	old := q.TurnOf(calls[0])
	require.Equal(t, 1, q.Void(func(t *Turn) bool { return t.Given <= 10 }, start), "the other one was given later")
	require.False(t, q.Use(calls[0], old))
	require.NotNil(t, q.TurnOf(calls[1]))
	require.Equal(t, []int64{0, 2}, numbers(q.places))
	require.Equal(t, 2, q.Waiting())
}

func TestDeadlines(t *testing.T) {
	q, calls := held(3, 1, 2, 3)
	calls[1].Deadline = after(1.5)
	q.Overdue()
	require.Equal(t, errLate, (<-calls[1].Wake).Err)
	require.Len(t, q.Spare(), 1)
	calls[2].Deadline = after(2.5)
	q.Reached(q.places[0], turn(1, 0), start)
	q.Reached(q.places[0], turn(2.6, 1), start)
	require.Equal(t, errLate, (<-calls[2].Wake).Err, "a turn after it is of no use")
	require.Len(t, q.Unused(), 1)
}

func TestPlacesAskShortlyBeforeTheirTurn(t *testing.T) {
	q, _ := held(5, 1, 1.05, 1.2, 2, 3)
	when, ok := q.When(times)
	require.True(t, ok)
	require.Equal(t, after(0.9), when)
	require.Empty(t, q.Next(after(0.8), times, 100).Places)
	ask := q.Next(after(0.96), times, 100)
	require.Equal(t, []int64{0, 1, 3}, numbers(ask.Places), "with the first that is too far off to be given a turn")

	q.Moved(ask.Places[0], after(1.1), after(1), times.Lead)
	when, _ = q.When(times)
	require.Equal(t, after(1.095), when, "it was asked too early: shortly before its turn")
	q.Moved(ask.Places[2], after(2.5), after(1), times.Lead)
	require.Equal(t, after(3.5), q.places[4].forecast, "those behind move as far")
	require.Equal(t, after(1.2), q.places[2].forecast, "those before do not come later")
}

// News that come while places are asked for: the answers may be older.
func TestNewsAreNewerThanAnswersOnTheirWay(t *testing.T) {
	q, _ := held(1, 1)
	ask := q.Next(after(0.95), times, 100)
	q.Refresh(1)
	q.Moved(ask.Places[0], after(9), after(1), times.Lead)
	when, ok := q.When(times)
	require.True(t, ok)
	require.False(t, when.After(after(1)), "it asks again")
	ask = q.Next(after(1), times, 100)
	require.Len(t, ask.Places, 1)
	q.Moved(ask.Places[0], after(2), after(1), times.Lead)
	when, _ = q.When(times)
	require.Equal(t, after(1.9), when, "once")

	q, _ = held(1)
	require.Equal(t, 1, q.Next(after(0), times, 100).New)
	q.Refresh(1)
	q.Placed(&Place{Number: 1, Tags: []int64{1}}, after(9), start)
	when, _ = q.When(times)
	require.False(t, when.After(start), "a new one, too")
}

// News of room for several calls come while new ones are asked for: as many ask again.
func TestNewsForSeveralNewCalls(t *testing.T) {
	q, _ := held(4)
	require.Equal(t, 4, q.Next(after(0), times, 100).New)
	q.Refresh(2)
	for n := range 4 {
		q.Placed(&Place{Number: int64(n + 1), Tags: []int64{int64(n + 1)}}, after(9), start)
	}
	require.Equal(t, []int64{1, 2, 3}, numbers(q.Next(start, times, 100).Places), "and one that tells how far the others are")
}

func TestTwoFlightsMoveForecastsOnce(t *testing.T) {
	q, _ := held(6, 1, 1.05, 2, 3, 4, 5)
	one := q.Next(after(0.9), times, 2)
	require.Equal(t, []int64{0}, numbers(one.Places[:1]))
	two := q.Next(after(0.96), times, 100)
	require.Equal(t, []int64{1, 3}, numbers(two.Places))
	require.Equal(t, []int64{0, 2}, numbers(one.Places))
	q.Moved(one.Places[1], after(1.5), after(1), times.Lead)
	q.Moved(two.Places[1], after(2.5), after(1.1), times.Lead)
	require.Equal(t, after(3.5), q.places[4].forecast)
	require.Equal(t, after(4.5), q.places[5].forecast)
}

// Whatever happens: nobody who waits is without a place or an ask, no call has two turns, and
// each turn is for one call, or goes back.
func TestNobodyIsForgotten(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		q := &Queue{Limits: 1, Missed: func(time.Time, time.Time, int) error { return errLate }}
		var calls []*Call
		var flights []Ask
		now, number, given, used, back, lapsed := start, int64(0), 0, 0, 0, 0
		give := func() *Turn {
			given++
			number++
			return turn(now.Sub(start).Seconds()+r.Float64(), number)
		}
		for range 200 {
			now = now.Add(time.Duration(r.Int64N(int64(200 * time.Millisecond))))
			switch r.IntN(6) {
			case 0, 1:
				c := NewCall()
				calls = append(calls, c)
				q.Join(c, now)
			case 2:
				if len(calls) > 0 {
					q.Leave(calls[r.IntN(len(calls))], now)
				}
			case 3:
				flights = append(flights, q.Next(now, times, 1+r.IntN(10)))
			case 4:
				if len(flights) == 0 {
					break
				}
				f := flights[0]
				flights = flights[1:]
				if r.IntN(8) == 0 {
					q.Lost(f)
					break
				}
				for range f.New {
					if r.IntN(2) == 0 {
						q.Granted(give(), now)
					} else {
						number++
						q.Placed(&Place{Number: number, Tags: []int64{number}}, now.Add(time.Second), now)
					}
				}
				for _, p := range f.Places {
					if r.IntN(2) == 0 {
						q.Reached(p, give(), now)
					} else {
						q.Moved(p, now.Add(time.Second), now, times.Lead)
					}
				}
			default:
				back += len(q.Unused())
				for _, c := range calls {
					if mine := q.TurnOf(c); mine != nil && !mine.Due.After(now) {
						require.True(t, q.Use(c, mine))
						used++
						if r.IntN(5) == 0 {
							q.Return(c, mine, now)
							used--
							lapsed++
						}
					}
				}
			}
			q.Spare()
			for _, c := range calls {
				select {
				case e := <-c.Wake:
					if e.Turn != nil {
						used++
					}
				default:
				}
			}
			asked := q.asked
			for _, f := range flights {
				asked -= f.New
			}
			require.Zero(t, asked, "seed %d: what was asked for", seed)
			require.Equal(t, given, used+back+lapsed+len(q.given)+len(q.unused), "seed %d: turns", seed)
			ask := q.Next(now, times, 1000)
			require.LessOrEqual(t, len(q.waiting), len(q.places)+q.asked, "seed %d: each has a place or is asked for", seed)
			q.Lost(ask)
		}
	}
}

// News come while the first place is being asked for, and the answer that follows may be older:
// it asks once more, and not only the one behind it.
func TestARefreshIsNewerThanAnAnswerUnderWay(t *testing.T) {
	q, _ := held(2, 0.1, 0.25)
	ask := q.Next(start, times, 100)
	require.Equal(t, []int64{0}, numbers(ask.Places))
	first := ask.Places[0]
	q.Refresh(1)
	q.Moved(first, after(3600), start, times.Lead)
	ask = q.Next(start, times, 100)
	require.Contains(t, ask.Places, first)
}

// A held call hears that it has a place, also if that is one that was asked for another call: that
// one has left, or had the turn that this one asked for.
func TestAHeldCallHearsOfThePlaceOfAnother(t *testing.T) {
	now := time.Now()
	join := func(q *Queue) *Call {
		c := NewCall()
		c.Held = true
		q.Join(c, now)
		return c
	}
	hears := func(c *Call) bool { return len(c.Wake) == 1 }
	t.Run("given", func(t *testing.T) {
		q := &Queue{Limits: 1}
		c := join(q)
		require.Equal(t, 1, q.Next(now, times, 10).New)
		late := NewCall()
		late.Held = true
		q.Return(late, &Turn{Process: "p", Number: 7, Tags: []int64{1}}, now)
		q.Granted(&Turn{Process: "p", Number: 8, Due: now.Add(time.Second), Until: now.Add(time.Second)}, now)
		require.NotNil(t, q.TurnOf(late))
		require.True(t, hears(c))
	})
	t.Run("left", func(t *testing.T) {
		q := &Queue{Limits: 1}
		first := join(q)
		require.Equal(t, 1, q.Next(now, times, 10).New)
		q.Placed(&Place{Number: 1, Tags: []int64{1}}, now.Add(time.Minute), now)
		second := join(q)
		require.Equal(t, 1, q.Next(now, times, 10).New)
		require.False(t, hears(second))
		require.True(t, q.Leave(first, now))
		require.True(t, hears(second))
	})
}
