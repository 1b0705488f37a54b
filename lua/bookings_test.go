package lua

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// desk is one process that books calls at limits, and asks for them.
type desk struct {
	*testing.T
	client *redis.Client
	server *server
	who    queuemodel.Caller
	limits []queuemodel.Limit
	number int
}

func eachDesk(t *testing.T, test func(*desk), limits ...queuemodel.Limit) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client := server.Client(t)
		d := &desk{T: t, client: client, limits: limits, who: queuemodel.Caller{
			Now: startMicros, Way: 100, Horizon: 250000, Near: 5000, Grace: 300000, Run: "run", Process: "p", Serial: 1,
		}}
		var keys []string
		for j, l := range limits {
			keys = append(keys, Keys(redistest.Prefix(t), "", "api", l.Kind, strconv.Itoa(j))...)
		}
		d.server = serverOf(t.Context(), client, keys)
		test(d)
	})
}

// asks asks for one call at all limits, or at the first few.
func (d *desk) asks(id string, patience float64, of ...int) queuemodel.Answer {
	d.Helper()
	d.number++
	return d.asksAs(d.number, id, patience, of...)
}

func (d *desk) asksAs(number int, id string, patience float64, of ...int) queuemodel.Answer {
	d.Helper()
	item := queuemodel.Item{Count: 1, Number: number, ID: id, Patience: patience, Latest: never}
	for j := range d.limits {
		if len(of) == 0 || j < of[0] {
			item.Parts = append(item.Parts, queuemodel.Part{Limit: j, Cost: 1})
		}
	}
	d.who.Serial++
	_, answers, err := d.server.Ask(d.who, d.limits, []queuemodel.Item{item})
	require.NoError(d, err)
	return answers[0]
}

func (d *desk) pass(micros float64) { d.who.Now += micros }

func (d *desk) leave(limit int, what, which string, cost float64) float64 {
	d.Helper()
	_, left, err := d.server.Leave(d.who, d.limits, limit, what, which, cost, nil)
	require.NoError(d, err)
	return left
}

func (d *desk) kept(limit int) int64 {
	return d.client.ZCard(d.Context(), d.server.keys[6*limit+4]).Val()
}

// life is for how many seconds a key of a limit is kept.
func (d *desk) life(limit, key int) float64 {
	return d.client.PTTL(d.Context(), d.server.keys[6*limit+key]).Val().Seconds()
}

func (d *desk) queueField(limit int) []string {
	return strings.Fields(d.client.HGet(d.Context(), d.server.keys[6*limit], "queue").Val())
}

// A turn of a new call lets all go that were booked before it: at the same moment, too.
func TestFrontIsBehindAllThatWereBooked(t *testing.T) {
	eachDesk(t, func(d *desk) {
		for n := range 10 {
			require.Equal(d, 3, d.asks("booked"+strconv.Itoa(n), -1).Status)
		}
		require.Equal(d, 1, d.asks("new", 0).Status)
		next := d.asks("next", 0)
		require.Equal(d, 3, next.Status)
		require.Equal(d, second, next.Wait, "behind one turn, and nobody else")
	}, queuemodel.Limit{Kind: "p", A: second, B: 1})
}

// Redis's clock steps back: who books after that is counted all the same.
func TestBookingsCountAfterAStepBack(t *testing.T) {
	eachDesk(t, func(d *desk) {
		require.Equal(d, 3, d.asks("first", -1).Status)
		d.pass(10 * second)
		require.Equal(d, 1, d.asks("new", 0).Status)
		d.pass(-9 * second)
		require.Equal(d, second, d.asks("a", 0).Wait)
		require.Equal(d, 2*second, d.asks("b", 0).Wait)
		require.Equal(d, 3*second, d.asks("c", 0).Wait)
	}, queuemodel.Limit{Kind: "p", A: second, B: 1})
}

// A tag from nowhere orders its own call, and no others.
func TestFrontStaysInTheWorld(t *testing.T) {
	eachDesk(t, func(d *desk) {
		d.asks("first", -1)
		d.number++
		_, answers, err := d.server.Ask(d.who, d.limits, []queuemodel.Item{{Count: 1, Number: d.number, ID: "x", Latest: never,
			Parts: []queuemodel.Part{{Cost: 1, Tag: 8e15}}}})
		require.NoError(d, err)
		require.Equal(d, 1, answers[0].Status)
		require.Equal(d, second, d.asks("a", 0).Wait)
		require.Equal(d, 2*second, d.asks("b", 0).Wait)
	}, queuemodel.Limit{Kind: "p", A: second, B: 1})
}

// What can not be a booking changes nothing.
func TestInvalidBookings(t *testing.T) {
	eachDesk(t, func(d *desk) {
		d.asks("good", -1)
		before := d.queueField(0)
		for _, c := range []struct {
			which string
			cost  float64
		}{
			{"7 0 id", 1}, {"7 1700000000000000", 1}, {"7 x id", 1}, {"7 1700000000000000 id", 0},
			{"7 " + strings.Repeat("9", 400) + " id", 1}, {"7 " + strings.Repeat("9", 30) + " id", 1}, {"7 1700000000000000 id", 1e300},
		} {
			require.Zero(d, d.leave(0, "book", c.which, c.cost), c.which)
			require.EqualValues(d, 1, d.kept(0), "%s %v", c.which, c.cost)
			require.Equal(d, before, d.queueField(0), c.which)
		}
		args := append(headArgs(d.who, d.limits), 1, "book", "7 1700000000000000 id", "0.5")
		require.NoError(d, d.server.run("leave", Leave, d.limits, args).err)
		require.EqualValues(d, 1, d.kept(0), "half a permit")
		for _, tag := range []string{"-5", "-0"} {
			args = append(headArgs(d.who, d.limits), 1, 8, 4, "id", "0", "1000", 1, 1, 1, tag)
			r := d.server.run("ask", Ask, d.limits, args)
			require.NoError(d, r.err)
			require.EqualValues(d, 2, r.values[7], "a tag of %s: %v", tag, r.values)
		}
	}, queuemodel.Limit{Kind: "p", A: second, B: 1})
}

func TestInvalidItemsWithIDs(t *testing.T) {
	eachDesk(t, func(d *desk) {
		for _, c := range [][]any{
			{1, 1, 4, "", "0", "0", 1, 1, 1, ""}, {1, 1, 4, "id", "x", "0", 1, 1, 1, ""}, {1, 1, 4, "id", "inf", "0", 1, 1, 1, ""},
			{1, 1, 4, "id", "0", "x", 1, 1, 1, ""}, {1, 1, 4, "id", "0", "nan", 1, 1, 1, ""}, {1, 1, 4, "id"}, {2, 1, 4, "id", "0", "0", 1, 1, 1, ""},
			{1, 1, 8, "id", "0", "0", 1, 1, 1, ""},
		} {
			r := d.server.run("ask", Ask, d.limits, append(headArgs(d.who, d.limits), c...))
			require.ErrorContains(d, r.err, "BADARG", "%v", c)
		}
		require.Zero(d, d.client.Exists(d.Context(), d.server.keys...).Val())
	}, queuemodel.Limit{Kind: "p", A: second, B: 1})
}

// Infinite counts of bookings are no state.
func TestQueueFieldWantsNumbers(t *testing.T) {
	eachDesk(t, func(d *desk) {
		d.asks("good", -1)
		for k := range 8 {
			field := d.queueField(0)
			if k == 2 {
				continue // the tag of the head is compared as a text
			}
			for _, bad := range []string{"inf", "nan", "x"} {
				bent := slices.Clone(field)
				bent[k] = bad
				require.NoError(d, d.client.HSet(d.Context(), d.server.keys[0], "queue", strings.Join(bent, " ")).Err())
				_, _, err := d.server.Ask(d.who, d.limits, []queuemodel.Item{{Count: 1, Number: 9, Parts: single(1)}})
				require.ErrorContains(d, err, "BADSTATE queue", "%d %s", k, bad)
			}
			require.NoError(d, d.client.HSet(d.Context(), d.server.keys[0], "queue", strings.Join(field, " ")).Err())
		}
	}, queuemodel.Limit{Kind: "p", A: second, B: 1})
}

// A step of Redis's clock shortens the life of no booking.
func TestBookingsOutliveAStep(t *testing.T) {
	eachDesk(t, func(d *desk) {
		d.asks("a", -1)
		require.InDelta(d, 600, d.life(0, 4), 60)
		d.limits[0].Clock = d.who.Now // it knows what time it is
		d.pass(3600 * second)
		d.leave(0, "place", "1", 1)
		require.EqualValues(d, 1, d.kept(0))
		require.InDelta(d, 600, d.life(0, 4), 60)
		require.InDelta(d, 600, d.life(0, 0), 60)
	}, queuemodel.Limit{Kind: "p", A: second, B: 1})
}

// The tags of a call of several limits are kept for as long at all of them.
func TestTagsAreKeptAtAllLimits(t *testing.T) {
	fast, slow := queuemodel.Limit{Kind: "p", A: 1000, B: 1}, queuemodel.Limit{Kind: "p", A: 3600 * second, B: 1}
	eachDesk(t, func(d *desk) {
		require.Equal(d, 1, d.asks("", 0).Status)
		a := d.asks("", 0)
		require.Equal(d, 0, a.Status)
		head := headArgs(d.who, d.limits)
		args := append(head, 1, "book", "2 -"+whole(a.Tags[0])+" id", 1, 2, "book", "2 "+whole(a.Tags[1])+" id", 1)
		require.NoError(d, d.server.run("leave", Leave, d.limits, args).err)
		require.EqualValues(d, 1, d.kept(0))
		require.EqualValues(d, 1, d.kept(1))
		require.Greater(d, d.life(1, 4), 3600.0)
		require.Greater(d, d.life(0, 4), 3600.0)
		require.Greater(d, d.life(0, 0), 3600.0)
	}, fast, slow)
}

// Bookings that never come back end in time, although others use their limit without IDs:
// else no call would ever take the common path again.
func TestBookingsEndAtALimitInUse(t *testing.T) {
	eachDesk(t, func(d *desk) {
		for n := range 100 {
			require.Equal(d, 3, d.asks("a"+strconv.Itoa(n), -1).Status)
		}
		for range 15 {
			d.pass(60 * second)
			d.asks("", 0)
		}
		require.Zero(d, d.kept(0))
		require.NotContains(d, d.client.HGet(d.Context(), d.server.keys[0], "plain").Val(), "~")
	}, queuemodel.Limit{Kind: "p", A: second, B: 1})
}

// What a call with an ID is told counts the bookings before it, whether it would wait or not.
func TestForecastWithoutAPlaceCountsBookings(t *testing.T) {
	eachDesk(t, func(d *desk) {
		d.asks("", 0)
		for n := range 10 {
			d.asks("a"+strconv.Itoa(n), -1)
		}
		_, answers, err := d.server.Ask(d.who, d.limits, []queuemodel.Item{
			{Count: 1, Number: 50, Now: true, ID: "b", Latest: never, Parts: single(1)}, {Count: 1, Number: 51, Now: true, Parts: single(1)}})
		require.NoError(d, err)
		require.Equal(d, 11*second, answers[0].Wait)
		require.Equal(d, second, answers[1].Wait, "without an ID it waits for no booking")
	}, queuemodel.Limit{Kind: "p", A: second, B: 1})
}

// What stands under a state that is gone is nobody's booking.
func TestBookingsUnderAFreshState(t *testing.T) {
	eachDesk(t, func(d *desk) {
		d.asks("a", -1)
		inspect := func() any {
			r := d.server.run("inspect", Inspect, d.limits, headArgs(d.who, d.limits))
			require.NoError(d, r.err)
			return r.values[5+7]
		}
		require.EqualValues(d, 1, inspect())
		require.NoError(d, d.client.Del(d.Context(), d.server.keys[0]).Err())
		require.EqualValues(d, 0, inspect())
		require.EqualValues(d, 1, d.kept(0), "inspect changes nothing")
		require.Equal(d, 0.0, d.asks("b", -1).Wait)
		require.EqualValues(d, 1, d.kept(0), "what stood there is gone")
	}, queuemodel.Limit{Kind: "p", A: second, B: 1})
}

// A cost is in the name of a booking, however large.
func TestLargeCostsAreFound(t *testing.T) {
	eachDesk(t, func(d *desk) {
		tag := func() float64 {
			_, answers, err := d.server.Ask(d.who, d.limits, []queuemodel.Item{{Count: 1, Number: 1, ID: "x", Patience: -1, Latest: never, Parts: single(math.Pow(2, 49) + 1)}})
			require.NoError(d, err)
			return answers[0].Tags[0]
		}
		was := tag()
		d.pass(1000)
		require.Equal(d, was, tag())
	}, queuemodel.Limit{Kind: "p", A: 1, B: 1e15})
}

// A long backlog keeps its order, although a newcomer had a turn in between.
func TestALongBacklogKeepsItsTags(t *testing.T) {
	eachDesk(t, func(d *desk) {
		var last queuemodel.Answer
		for n := range 300 {
			last = d.asks("a"+strconv.Itoa(n), -1)
		}
		require.Equal(d, 299*60*second, last.Wait)
		d.pass(9000 * second)
		require.Equal(d, 1, d.asks("new", 0).Status, "it finds nobody waiting")
		for n := range 10 {
			d.asks("b"+strconv.Itoa(n), -1)
		}
		require.Equal(d, last.Tags, d.asks("a299", -1).Tags)
	}, queuemodel.Limit{Kind: "p", A: 60 * second, B: 1})
}

// The tag of a call that waits for hours at one limit is kept at all others.
func TestALongWaitElsewhereKeepsItsTags(t *testing.T) {
	eachDesk(t, func(d *desk) {
		d.asks("", 0)
		first := d.asks("two limits", -1)
		require.Equal(d, 7200*second, first.Wait)
		for n := range 14 { // the other limit is in use
			d.pass(500 * second)
			d.asks("booked"+strconv.Itoa(n), -1, 1)
			require.Equal(d, 1, d.asks("made"+strconv.Itoa(n), 0, 1).Status)
		}
		require.Equal(d, first.Tags, d.asks("two limits", 0).Tags)
	}, queuemodel.Limit{Kind: "p", A: 1000, B: 1}, queuemodel.Limit{Kind: "p", A: 7200 * second, B: 1})
}

// Bookings that never come back are forgotten, one by one, where others go on.
func TestLateBookingsAreForgotten(t *testing.T) {
	eachDesk(t, func(d *desk) {
		for n := range 100 {
			d.asks("dead"+strconv.Itoa(n), -1)
		}
		for n := range 12 {
			d.pass(500 * second)
			require.Equal(d, 3, d.asks("a"+strconv.Itoa(n), -1).Status)
			require.Equal(d, 1, d.asks("a"+strconv.Itoa(n), 0).Status)
		}
		require.Less(d, d.kept(0), int64(5))
	}, queuemodel.Limit{Kind: "p", A: second, B: 1})
}

// A call that another process asks for has one place, the one that it had, though nobody knows
// yet that the process is dead which asked for it first.
func TestAnotherProcessHasThePlace(t *testing.T) {
	eachDesk(t, func(d *desk) {
		d.asks("", never)
		for _, id := range []string{"a", "b", "c"} {
			d.asks(id, never)
		}
		d.who.Process = "q"
		for i, id := range []string{"b", "a", "c"} {
			d.pass(1000)
			answer := d.asks(id, never)
			require.Equal(d, 0, answer.Status)
			require.InDelta(d, []float64{2e6, 1e6, 3e6}[i], answer.Wait, 1e4)
			require.EqualValues(d, 3, d.client.ZCard(d.Context(), d.server.keys[1]).Val())
		}
	}, queuemodel.Limit{Kind: "p", A: 1e6, B: 1})
}
