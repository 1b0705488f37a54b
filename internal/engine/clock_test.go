package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The first calls of a process take longer, and most of that before Redis has read its clock:
// it connects, logs in and sends the scripts. A machine that is busy stops any of them. No turn
// is early for that, and in the end none is late.
func TestRepliesMakeNoTurnEarly(t *testing.T) {
	const back = 10
	for what, trips := range map[string][]int{
		"it connects":     {150, 40, 10, 10, 10, 10, 10, 10, 10, 10},
		"it is stopped":   {80, 70, 150, 300, 90, 10, 10, 10, 10, 10},
		"and once more":   {10, 10, 10, 10, 10, 10, 10, 300, 10, 10},
		"it comes nearer": {90, 90, 90, 90, 90, 90, 10, 10, 10, 10, 10, 10},
	} {
		t.Run(what, func(t *testing.T) {
			var c clock
			start, now := time.Now(), time.Duration(0)
			var late time.Duration
			for i, there := range trips {
				sent, told := start.Add(now), c.times(start.Add(now)).way
				now += time.Duration(there) * time.Millisecond
				truth := start.Add(now + told)
				micros := 1_000_000 + now.Microseconds()
				now += back * time.Millisecond
				at, early := c.arrival(micros, told, sent, start.Add(now))
				late = at.Sub(truth)
				require.LessOrEqual(t, -late, early, "call %d", i)
				if what != "it comes nearer" || there == back { // half of 100 ms is all that can be known
					require.GreaterOrEqual(t, late, -time.Millisecond, "call %d", i)
				}
				require.LessOrEqual(t, late, back*time.Millisecond, "call %d", i)
			}
			require.Less(t, late, time.Millisecond)
		})
	}
}

// Calls that one stall holds up on their way to Redis take about as long as each other, and tell
// as little as one of them: no turn is early for that.
func TestCallsOfOneStallMakeNoTurnEarly(t *testing.T) {
	const back = 10 * time.Millisecond
	var c clock
	start := time.Now()
	read := start.Add(150 * time.Millisecond)
	for i := range 6 {
		sent := start.Add(time.Duration(i) * time.Millisecond)
		at, early := c.arrival(time.Hour.Microseconds(), 0, sent, read.Add(back))
		require.False(t, at.Before(read), "call %d is %v early", i, read.Sub(at))
		require.LessOrEqual(t, read.Sub(at), early, "call %d", i)
	}
}

// When Redis's clock has stepped, what was known of it is void, and so is what the trips before
// told of the way: no turn is early for that.
func TestAStepOfTheClockMakesNoTurnEarly(t *testing.T) {
	const back = 10
	for _, step := range []time.Duration{-time.Hour, time.Hour} {
		var c clock
		start, now := time.Now(), time.Duration(0)
		for i := range 10 {
			there := 10
			if i == 9 {
				there = 90
			}
			sent, told := start.Add(now), c.times(start.Add(now)).way
			now += time.Duration(there) * time.Millisecond
			truth := start.Add(now + told)
			micros := (10*time.Hour + now).Microseconds()
			if i == 9 {
				micros += step.Microseconds()
			}
			now += back * time.Millisecond
			at, early := c.arrival(micros, told, sent, start.Add(now))
			require.False(t, at.Before(truth.Add(-time.Millisecond)), "call %d", i)
			require.LessOrEqual(t, truth.Sub(at), early, "call %d", i)
		}
	}
}

// What trips tell is forgotten after some time, and so is that they were fast: later ones that
// are slow on the way there make no turn early for that.
func TestOldTripsMakeNoTurnEarly(t *testing.T) {
	const back = 10
	var c clock
	start := time.Now()
	for i, trip := range []struct{ at, there int }{{0, 10}, {20_000, 10}, {21_000, 10}, {22_000, 10}, {31_000, 90}, {62_000, 90}} {
		sent := start.Add(time.Duration(trip.at) * time.Millisecond)
		told := c.times(sent).way
		truth := sent.Add(time.Duration(trip.there)*time.Millisecond + told)
		micros := (truth.Sub(start) - told + time.Hour).Microseconds()
		at, _ := c.arrival(micros, told, sent, truth.Add(back*time.Millisecond-told))
		require.False(t, at.Before(truth.Add(-time.Millisecond)), "call %d is %v early", i, truth.Sub(at))
	}
}

// A turn is given at most half a second ahead, wherever Redis is: a pause that a process does not
// hear of is broken for no longer. Who asks in time is given one.
func TestTurnsAreGivenHalfASecondAhead(t *testing.T) {
	for _, trip := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond, time.Second, time.Minute} {
		of := timesOf([]time.Duration{trip, trip, trip})
		require.LessOrEqual(t, of.horizon, time.Second/2, trip)
		require.Greater(t, of.horizon, of.lead, trip)
		require.LessOrEqual(t, of.way+of.horizon, farthest, trip)
	}
}

// A step of Redis's clock ends what was known of the difference of the clocks, however many trips there were. On a
// slow way, one trip after the step does not tell when turns are due.
func TestAStepOfTheClockIsMeasuredAnew(t *testing.T) {
	for _, way := range []time.Duration{time.Millisecond, 50 * time.Millisecond} {
		var c clock
		start := time.Now()
		redis := time.Hour
		for i := range 10 {
			if i == 6 {
				redis += time.Minute
			}
			sent := start.Add(time.Duration(i) * time.Second)
			c.arrival((redis + sent.Sub(start) + way).Microseconds(), 0, sent, sent.Add(2*way))
			since := i%6 + 1
			require.Equal(t, since >= alike || 2*way <= slop, c.sure(), "way %v, trip %d", way, i)
		}
	}
}
