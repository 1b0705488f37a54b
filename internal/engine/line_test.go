package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/wire"
)

var start = time.Unix(1_000_000, 0)

func after(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

// newLine is a line whose calls need limits of some kinds.
func newLine(kinds ...string) *line {
	e := New(Config{Random: func() float64 { return 0.5 }, Errors: Errors{Missed: func(time.Time, time.Time, int) error { return errLate }}})
	var need Need
	for i, kind := range kinds {
		part := Part{wire.NewLimit(wire.Terms{Kind: kind, A: 50_000, B: 1}, []string{kind, "1", "2", "3", "4", "5"}, &wire.Name{Keys: []string{"n"}}), 1}
		if i == 0 {
			need.Part = part
		} else {
			need.More = append(need.More, part)
		}
	}
	return e.lineOf(&need)
}

func newCall(l *line, now time.Time) *Call {
	c := NewCall(l.need)
	l.join(c, now)
	return c
}

// filled is a line with calls that joined in order, and have places but for the last few, by their
// forecasts in seconds.
func filled(calls int, forecasts ...float64) (*line, []*Call) {
	l := newLine("p")
	var all []*Call
	for range calls {
		all = append(all, newCall(l, start))
	}
	_, fresh := l.take(start, usual, 100)
	for i, f := range forecasts {
		l.placed(&place{number: int64(i), tags: []int64{int64(i)}}, 0, after(f), start)
	}
	l.unanswered(nil, fresh-len(forecasts))
	return l, all
}

var usual = &times{lead: 100 * time.Millisecond, near: 5 * time.Millisecond, horizon: 300 * time.Millisecond}

func numbers(places []*place) (n []int64) {
	for _, p := range places {
		n = append(n, p.number)
	}
	return n
}

func turnAt(due float64, number int64) *Turn {
	return &Turn{Due: after(due), Until: after(due + 1), Process: "p", Number: number, Tags: []int64{number}, Ask: "p 1", Alone: true, spent: new(int64), out: new(int64)}
}

// moves notes that a place was given another forecast.
func (l *line) moves(p *place, forecast, now time.Time) {
	l.waits(p, p.limit, nil, forecast, now, usual.lead)
}

// asksNow are the numbers of the places that the line asks for.
func (l *line) asksNow(now time.Time) []int64 {
	places, _ := l.take(now, usual, 100)
	return numbers(places)
}

// hears reports whether a call was woken.
func hears(l *line, c *Call) bool { return slices.Contains(l.engine.ready.Wake, c) }

func TestTurnsGoToTheFirst(t *testing.T) {
	l, calls := filled(3, 1, 2, 3)
	l.reached(l.places[1], turnAt(2, 1), start) // whichever call it was asked for
	require.Equal(t, Given, calls[0].state)
	require.Equal(t, Waiting, calls[1].state)
	require.True(t, hears(l, calls[0]), "its turn has changed")
	require.Len(t, l.waiting, 2)

	l.reached(l.places[0], turnAt(0, 0), start)
	require.Equal(t, Used, calls[1].state, "one that is due is used at once")
}

func TestWhoGivesUpLeavesTheLastPlace(t *testing.T) {
	l, calls := filled(3, 1, 2, 3)
	require.True(t, l.leave(calls[0], start))
	require.False(t, l.leave(calls[0], start), "its wait is over")
	require.True(t, l.spare())
	require.Equal(t, []int64{2}, numbers(l.takeSpare()))
	require.Equal(t, []int64{0, 1}, numbers(l.places))

	l.leave(calls[1], start)
	newCall(l, start)
	require.Empty(t, l.takeSpare(), "who comes at once has the place")

	l.leave(calls[2], start)
	hasty := NewCall(l.need)
	hasty.Deadline = after(1.5)
	l.join(hasty, start)
	require.Equal(t, errLate, hasty.err, "but not if it comes too late for it")
	require.Len(t, l.takeSpare(), 1)
}

// The last place is asked for right now. It leaves after its answer, and no older place leaves before it.
func TestNoOlderPlaceLeavesBeforeTheLast(t *testing.T) {
	l, calls := filled(3, 1, 2, 3)
	l.places[2].asking = true
	l.leave(calls[2], start)
	require.False(t, l.spare())
	require.Empty(t, l.takeSpare())

	l.places[2].asking = false
	require.True(t, l.spare())
	require.Equal(t, []int64{2}, numbers(l.takeSpare()))
}

func TestWhoGivesUpItsTurnMovesThoseBehindForward(t *testing.T) {
	l, calls := filled(4, 1, 2, 3, 4)
	for k, p := range slices.Clone(l.places[:3]) {
		l.reached(p, turnAt(float64(k+1), int64(k)), start)
	}
	l.leave(calls[0], start)
	require.Equal(t, after(1), calls[1].turn.Due)
	require.Equal(t, after(2), calls[2].turn.Due)
	require.Equal(t, after(3), calls[3].turn.Due, "the first that waited has the last turn")
	require.Equal(t, []int64{3}, numbers(l.takeSpare()))

	l.leave(calls[3], start)
	require.Len(t, l.unused, 1, "nobody needs it")
}

// A turn goes back with those that the same ask was given after it. So it must not if one of
// them was used, as it can be where its call leaves when it is due, or is still out.
func TestATurnGoesBackWithThoseAfterItOnly(t *testing.T) {
	for last := range 3 {
		l, calls := filled(3, 1, 2, 3)
		var spent, out int64 = 0, 3
		for k, p := range slices.Clone(l.places) {
			turn := turnAt(float64(k+1), int64(k))
			turn.Permit, turn.spent, turn.out = int64(k+1), &spent, &out
			l.reached(p, turn, start)
		}
		l.use(calls[last], start)
		for k := range calls {
			l.leave(calls[k], start)
		}
		for _, unused := range l.unused {
			require.Equal(t, unused.Permit > int64(last+1), unused.goBack(1), "turn %d of 3, where %d was used", unused.Permit, last+1)
		}
	}
	var spent, out int64 = 0, 2
	one := &Turn{Ask: "p 1", Permit: 1, spent: &spent, out: &out}
	other := &Turn{Ask: "p 1", Permit: 2, spent: &spent, out: &out}
	require.False(t, one.goBack(1), "another line has the other")
	require.True(t, other.goBack(1))
	require.True(t, one.goBack(1))
}

// A pause of an hour ends: the first place is asked for, and the second, which is to tell how
// far the others are. It is given a turn, so the next ones ask, in growing numbers, until one is given
// none.
func TestMoreAskForAsLongAsTurnsComeSooner(t *testing.T) {
	l, _ := filled(12, 3600, 3601, 3602, 3603, 3604, 3605, 3606, 3607, 3608, 3609, 3610, 3611)
	l.refresh(-1, 1)
	reached := func(n ...int64) {
		places, _ := l.take(start, usual, 100)
		require.Equal(t, n, numbers(places))
		for _, p := range places {
			l.reached(p, turnAt(0.2, p.number), start)
		}
	}
	reached(0, 1)
	reached(2, 3, 4, 5, 6)
	places, _ := l.take(start, usual, 2)
	require.Equal(t, []int64{7, 8}, numbers(places))
	l.moves(places[0], after(10), start)
	l.moves(places[1], after(11), start)
	require.Empty(t, l.asksNow(start))
	when, ok := l.asksAt(usual)
	require.True(t, ok)
	require.Equal(t, after(9.9), when)
}

// What a place hears is of its limit, and moves no forecast of another one.
func TestEachLimitHasItsForecasts(t *testing.T) {
	l := newLine("p", "q")
	for range 6 {
		newCall(l, start)
	}
	l.take(start, usual, 100)
	for i, f := range []float64{1, 20, 1.05, 21, 1.5, 22} {
		l.placed(&place{number: int64(i), tags: []int64{int64(i), int64(i)}, limit: i % 2}, 0, after(f), start)
	}
	when, _ := l.asksAt(usual)
	require.Equal(t, after(0.9), when)
	places, _ := l.take(after(0.96), usual, 100)
	require.Equal(t, []int64{0, 2, 4}, numbers(places))
	l.moves(places[2], after(1.6), after(1))
	require.Equal(t, after(22), l.places[5].forecast)

	l.refresh(1, 1) // the one with the latest forecast but one is due, behind one at another limit that is not
	places, _ = l.take(after(1), usual, 100)
	require.Equal(t, []int64{1, 3}, numbers(places))
	l.moves(places[0], after(10), after(1))
	l.waits(places[1], 0, nil, after(2), after(1), usual.lead)
	require.Equal(t, after(22), l.places[5].forecast, "it heard nothing of the limit where that waits")
}

func TestAnUnusedTurnIsForWhoComesNext(t *testing.T) {
	l, calls := filled(1, 1)
	l.reached(l.places[0], turnAt(1, 0), start)
	l.leave(calls[0], start)
	c := newCall(l, after(0.5))
	require.Equal(t, after(1), c.turn.Due)
	require.Empty(t, l.unused)

	l.leave(c, after(0.5))
	require.Equal(t, Waiting, newCall(l, after(5)).state, "that is over")
}

func TestAnOversleptTurnIsAskedForAnewAndFirst(t *testing.T) {
	l, calls := filled(3, 1, 2, 3)
	l.reached(l.places[0], turnAt(1, 0), start)
	mine := calls[0].turn
	l.use(calls[0], start)
	l.again(calls[0], mine, after(9))
	places, _ := l.take(after(9), usual, 100)
	require.Equal(t, []int64{0, 1, 2}, numbers(places))
	require.Equal(t, "p 1", places[0].back, "the turn goes back")
	l.reached(places[0], turnAt(9, 0), after(9))
	require.Equal(t, Used, calls[0].state)
}

func TestVoidTurnsAreAskedForAnewInOrder(t *testing.T) {
	l, calls := filled(3, 1, 2, 3)
	for _, p := range slices.Clone(l.places[:2]) {
		given := turnAt(1+float64(p.number), p.number)
		given.Given = 10 + p.number
		l.reached(p, given, start)
	}
	require.Equal(t, 1, l.takeBack(func(t *Turn) bool { return t.Given <= 10 }, nil, start), "the other one was given later")
	require.Equal(t, Waiting, calls[0].state)
	require.Equal(t, Given, calls[1].state)
	require.Equal(t, []int64{0, 2}, numbers(l.places))
	require.Len(t, l.waiting, 2)
}

func TestDeadlines(t *testing.T) {
	l, calls := filled(3, 1, 2, 3)
	calls[1].Deadline = after(1.5)
	l.overdue(start)
	require.Equal(t, errLate, calls[1].err)
	require.Len(t, l.takeSpare(), 1)
	calls[2].Deadline = after(2.5)
	l.reached(l.places[0], turnAt(1, 0), start)
	l.reached(l.places[0], turnAt(2.6, 1), start)
	require.Equal(t, errLate, calls[2].err, "a turn after it is of no use")
	require.Len(t, l.unused, 1)
}

func TestPlacesAskShortlyBeforeTheirTurn(t *testing.T) {
	l, _ := filled(5, 1, 1.05, 1.2, 2, 3)
	when, ok := l.asksAt(usual)
	require.True(t, ok)
	require.Equal(t, after(0.9), when)
	require.Empty(t, l.asksNow(after(0.8)))
	places, _ := l.take(after(0.96), usual, 100)
	require.Equal(t, []int64{0, 1, 3}, numbers(places), "with the first that is too far off to be given a turn")

	l.moves(places[0], after(1.1), after(1))
	when, _ = l.asksAt(usual)
	require.Equal(t, after(1.095), when, "it was asked too early: shortly before its turn")
	l.moves(places[2], after(2.5), after(1))
	require.Equal(t, after(3.5), l.places[4].forecast, "those behind move as far")
	require.Equal(t, after(1.2), l.places[2].forecast, "those before do not come later")
}

// News that come while places are asked for: the answers may be older.
func TestNewsAreNewerThanAnswersOnTheirWay(t *testing.T) {
	l, _ := filled(1, 1)
	places, _ := l.take(after(0.95), usual, 100)
	l.refresh(-1, 1)
	l.moves(places[0], after(9), after(1))
	when, ok := l.asksAt(usual)
	require.True(t, ok)
	require.False(t, when.After(after(1)), "it asks again")
	places, _ = l.take(after(1), usual, 100)
	require.Len(t, places, 1)
	l.moves(places[0], after(2), after(1))
	when, _ = l.asksAt(usual)
	require.Equal(t, after(1.9), when, "once")

	l, _ = filled(1)
	_, fresh := l.take(after(0), usual, 100)
	require.Equal(t, 1, fresh)
	l.refresh(-1, 1)
	l.placed(&place{number: 1, tags: []int64{1}}, 0, after(9), start)
	when, _ = l.asksAt(usual)
	require.False(t, when.After(start), "a new one, too")
}

// News of room for several calls come while new ones are asked for: as many ask again.
func TestNewsForSeveralNewCalls(t *testing.T) {
	l, _ := filled(4)
	_, fresh := l.take(after(0), usual, 100)
	require.Equal(t, 4, fresh)
	l.refresh(-1, 2)
	for n := range 4 {
		l.placed(&place{number: int64(n + 1), tags: []int64{int64(n + 1)}}, 0, after(9), start)
	}
	require.Equal(t, []int64{1, 2, 3}, l.asksNow(start), "and one that tells how far the others are")
}

func TestTwoBatchesMoveForecastsOnce(t *testing.T) {
	l, _ := filled(6, 1, 1.05, 2, 3, 4, 5)
	one, _ := l.take(after(0.9), usual, 2)
	require.Equal(t, []int64{0, 2}, numbers(one))
	two, _ := l.take(after(0.96), usual, 100)
	require.Equal(t, []int64{1, 3}, numbers(two))
	l.moves(one[1], after(1.5), after(1))
	l.moves(two[1], after(2.5), after(1.1))
	require.Equal(t, after(3.5), l.places[4].forecast)
	require.Equal(t, after(4.5), l.places[5].forecast)
}

// Whatever happens: nobody who waits is without a place or an ask, no call has two turns, and
// each turn is for one call, or goes back.
func TestNobodyIsForgotten(t *testing.T) {
	type asks struct {
		places []*place
		fresh  int
	}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := newLine("p")
		var calls []*Call
		var batches []asks
		now, number, given, back, lapsed := start, int64(0), 0, 0, 0
		give := func() *Turn {
			given++
			number++
			return turnAt(now.Sub(start).Seconds()+r.Float64(), number)
		}
		lose := func(a asks) {
			for _, p := range a.places {
				l.unanswered(p, 0)
			}
			l.unanswered(nil, a.fresh)
		}
		take := func(most int) asks {
			places, fresh := l.take(now, usual, most)
			return asks{places, fresh}
		}
		for range 200 {
			now = now.Add(time.Duration(r.Int64N(int64(200 * time.Millisecond))))
			switch r.IntN(6) {
			case 0, 1:
				calls = append(calls, newCall(l, now))
			case 2:
				if len(calls) > 0 {
					l.leave(calls[r.IntN(len(calls))], now)
				}
			case 3:
				batches = append(batches, take(1+r.IntN(10)))
			case 4:
				if len(batches) == 0 {
					break
				}
				b := batches[0]
				batches = batches[1:]
				if r.IntN(8) == 0 {
					lose(b)
					break
				}
				for range b.fresh {
					if r.IntN(2) == 0 {
						l.granted(give(), now)
					} else {
						number++
						l.placed(&place{number: number, tags: []int64{number}}, 0, now.Add(time.Second), now)
					}
				}
				for _, p := range b.places {
					if r.IntN(2) == 0 {
						l.reached(p, give(), now)
					} else {
						l.moves(p, now.Add(time.Second), now)
					}
				}
			default:
				back += len(l.unused)
				l.unused = nil
				for _, c := range calls {
					if c.state == Given && !c.turn.Due.After(now) {
						mine := c.turn
						l.use(c, now)
						if r.IntN(5) == 0 {
							l.again(c, mine, now)
							lapsed++
						}
					}
				}
			}
			l.takeSpare()
			asked, used := l.asked, 0
			for _, b := range batches {
				asked -= b.fresh
			}
			for _, c := range calls {
				if c.state == Used {
					used++
				}
			}
			require.Zero(t, asked, "seed %d: what was asked for", seed)
			require.Equal(t, given, used+back+lapsed+len(l.given)+len(l.unused), "seed %d: turns", seed)
			a := take(1000)
			require.LessOrEqual(t, len(l.waiting), len(l.places)+l.asked, "seed %d: each has a place or is asked for", seed)
			lose(a)
		}
	}
}

// News come while the first place is being asked for, and the answer that follows may be older:
// it asks once more, and not only the one behind it.
func TestARefreshIsNewerThanAnAnswerUnderWay(t *testing.T) {
	l, _ := filled(2, 0.1, 0.25)
	places, _ := l.take(start, usual, 100)
	require.Equal(t, []int64{0}, numbers(places))
	l.refresh(-1, 1)
	l.moves(places[0], after(3600), start)
	require.Contains(t, l.asksNow(start), int64(0))
}

// A held call hears that it has a place, also if that is one that was asked for another call: that
// one has left, or had the turn that this one asked for.
func TestAHeldCallHearsOfThePlaceOfAnother(t *testing.T) {
	join := func(l *line) *Call {
		c := NewCall(l.need)
		c.Held = true
		l.join(c, start)
		return c
	}
	asks := func(l *line) {
		_, fresh := l.take(start, usual, 10)
		require.Equal(t, 1, fresh)
	}
	t.Run("given", func(t *testing.T) {
		l := newLine("p")
		c := join(l)
		asks(l)
		late := NewCall(l.need)
		late.Held, late.line = true, l
		l.again(late, &Turn{Process: "p", Number: 7, Tags: []int64{1}}, start)
		l.granted(&Turn{Process: "p", Number: 8, Due: after(1), Until: after(1)}, start)
		require.Equal(t, Given, late.state)
		require.True(t, hears(l, c))
	})
	t.Run("left", func(t *testing.T) {
		l := newLine("p")
		first := join(l)
		asks(l)
		l.placed(&place{number: 1, tags: []int64{1}}, 0, after(60), start)
		second := join(l)
		asks(l)
		require.False(t, hears(l, second))
		require.True(t, l.leave(first, start))
		require.True(t, hears(l, second))
	})
}

// A pause takes back a turn that nobody has used: a call that comes then does not get it, and its
// slot is let go.
func TestAVoidTurnOfSlotsIsForNobody(t *testing.T) {
	l := newLine("s")
	l.give(&Turn{Process: "p", Number: 7, Given: 100, Due: start, Until: after(1)}, start)
	l.takeBack(func(*Turn) bool { return true }, nil, start)
	c := newCall(l, start)
	require.False(t, hears(l, c))
	require.Len(t, l.done, 1)
	require.EqualValues(t, 7, l.done[0].Number)
}

// Turns that a process gives itself have no number in Redis: calls that were too late for them ask
// as new ones.
func TestALocalTurnOfSlotsHasNoPlace(t *testing.T) {
	l := newLine("s")
	c := newCall(l, start)
	l.give(&Turn{Due: after(1), Until: after(1)}, start)
	mine := c.turn
	l.use(c, after(1))
	l.again(c, mine, after(2))
	places, fresh := l.take(after(2), usual, 10)
	require.Empty(t, places)
	require.Equal(t, 1, fresh)
}
