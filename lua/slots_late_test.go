package lua

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// slotOf is a limit of one slot, which the first call of process "p" holds.
func slotOf(t *testing.T, client *redis.Client) (*server, queuemodel.Caller, []queuemodel.Limit, func(queuemodel.Caller, float64) queuemodel.Answer) {
	s, who, limits := backlog(t, client, queuemodel.Limit{Kind: "s", A: 1, B: 1, Clock: startMicros}, 0)
	ask := func(who queuemodel.Caller, tag float64) queuemodel.Answer {
		_, answers, err := s.Ask(who, limits, []queuemodel.Item{{Count: 1, Number: 1, Parts: []queuemodel.Part{{Cost: 1, Tag: tag}}}})
		require.NoError(t, err)
		return answers[0]
	}
	require.Equal(t, 1, ask(who, 0).Status)
	for _, process := range []string{"p", "other"} { // they live
		require.NoError(t, client.ZAdd(t.Context(), s.keys[3], redis.Z{Score: startMicros, Member: process}).Err())
	}
	return s, who, limits, ask
}

// A message that was sent again comes late: the call that it is about holds the slot that the later
// one gave it, and keeps it.
func TestALateCopyTakesNoSlot(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		s, who, limits, ask := slotOf(t, server.Client(t))
		holders := func() int64 { return s.client.(*redis.Client).ZCard(t.Context(), s.keys[2]).Val() }
		who.Now, who.Serial, limits[0].Clock = who.Now+2e6, 2, startMicros-1e6
		require.Equal(t, 2, ask(who, 0).Status)
		require.EqualValues(t, 1, holders())
		_, left, err := s.Leave(who, limits, 0, "done", "1", 1, &queuemodel.Flow{})
		require.NoError(t, err)
		require.Zero(t, left)
		require.EqualValues(t, 1, holders())

		limits[0].Clock = who.Now
		_, left, err = s.Leave(who, limits, 0, "done", "1", 1, &queuemodel.Flow{})
		require.NoError(t, err)
		require.EqualValues(t, 1, left)
	})
}

// The ask that gave a call its slot comes a second time. It was sent before the slot was given; what
// follows its reply was not.
func TestACopyOfTheAskItselfTakesNoSlot(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for _, sent := range []float64{-1, -500, -1e6} {
			s, who, limits, ask := slotOf(t, server.Client(t))
			given := who.Now
			who.Now, limits[0].Clock = given+50000, given+sent
			require.Equal(t, 2, ask(who, 0).Status, "sent %v micros before", -sent)
			limits[0].Clock = given + who.Way
			_, left, err := s.Leave(who, limits, 0, "done", "1", 1, &queuemodel.Flow{})
			require.NoError(t, err)
			require.EqualValues(t, 1, left, "as soon as the reply is there")
		}
	})
}

// A server that took over has missed that a call is done: its slot is free when those who hold
// some have had time to tell.
func TestAnotherServerForgetsWhoHoldsSlots(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		_, who, limits, ask := slotOf(t, server.Client(t))
		who.Now, who.Run, who.Process, limits[0].Clock = who.Now+1e6, "another", "other", 0
		waits := ask(who, 0)
		require.Equal(t, 0, waits.Status)
		who.Now, who.Serial = who.Now+4e6, 2
		require.Equal(t, 1, ask(who, waits.Tags[0]).Status)
	})
}

// After a loss of data no slot is given for three seconds: then those who hold some have told so. A
// process that asks later, with what it knows from before, closes the limit to nobody.
func TestALateMemoryClosesNoSlots(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for _, late := range []float64{0, 0.5e6, 2.9e6, 3.1e6, 5e6, 20e6, 100e6} {
			for _, reach := range [][]float64{{1, 0}, {1, -20e6}, {0, 0}} { // the slots in use, and when the process has heard of them last
				s, who, limits := backlog(t, server.Client(t), queuemodel.Limit{Kind: "s", A: 5, B: 1}, 0)
				began := who.Now
				number := 0
				ask := func(process string, known bool, after float64) int {
					number++
					who.Now, who.Process, who.Serial = began+after, process, number
					limits[0].Known, limits[0].Reach, limits[0].Clock = "", nil, 0
					if known {
						limits[0].Known, limits[0].Reach = "1600000000000000 run s 5 1", reach
					}
					_, answers, err := s.Ask(who, limits, []queuemodel.Item{{Count: 1, Number: number, Now: true, Parts: []queuemodel.Part{{Cost: 1}}}})
					require.NoError(t, err)
					return answers[0].Status
				}
				require.Equal(t, 0, ask("first", true, 0), "it knows of the limit: others may hold slots")
				closed := late < 3e6
				require.Equal(t, closed, ask("late", true, late) == 0, "late by %v, reach %v", late, reach)
				require.Equal(t, closed, ask("other", false, late+1000) == 0, "late by %v, reach %v", late, reach)
				require.Equal(t, 1, ask("other", false, max(late+2000, 3.001e6)), "late by %v", late)
			}
		}
	})
}

// A copy of the ask comes when the call is done. What it takes is free as soon as its process says so
// once more. What that said before, and what it says too late, changes nothing for the call that has the
// slot by then.
func TestALateCopyAfterDoneIsLetGo(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		s, who, limits, ask := slotOf(t, server.Client(t))
		given := who.Now
		done := func(clock float64) int64 {
			limits[0].Clock = clock
			_, left, err := s.Leave(who, limits, 0, "done", "1", 1, &queuemodel.Flow{})
			require.NoError(t, err)
			return int64(left)
		}
		who.Now = given + 100000
		require.EqualValues(t, 1, done(who.Now))
		who.Now, limits[0].Clock = given+5e6, given-500
		require.Equal(t, 1, ask(who, 0).Status, "nobody knows that it is a copy")
		who.Now = given + 6e6
		require.Zero(t, done(given+100000), "a copy of what was said")
		require.Zero(t, done(given+4.9e6), "that was sent before the slot was given")
		require.EqualValues(t, 1, done(who.Now))
	})
}

// Slots that somebody took away are not taken back: neither by what holds them still, nor by a copy, nor
// on another server, nor when the process was dead. The call's end ends that.
func TestFreedSlotsAreNotTakenBack(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		s, who, limits, ask := slotOf(t, server.Client(t))
		given := who.Now
		client := s.client.(*redis.Client)
		leave := func(verb, which string) int64 {
			limits[0].Clock = who.Now
			_, left, err := s.Leave(who, limits, 0, verb, which, 1, &queuemodel.Flow{})
			require.NoError(t, err)
			return int64(left)
		}
		keep := func() int64 { return leave("keep", "1 "+whole(given)) }
		who.Now = given + 1e6
		require.EqualValues(t, 1, keep())
		require.EqualValues(t, 1, leave("free", "1"))
		require.Zero(t, leave("free", "1"))
		require.Zero(t, keep())
		limits[0].Clock = given - 500
		require.Equal(t, 2, ask(who, 0).Status, "a copy")
		require.Zero(t, keep())

		require.NoError(t, client.ZAdd(t.Context(), s.keys[3], redis.Z{Score: -given - 1e6, Member: "p"}).Err())
		other := who
		other.Process, other.Now = "other", given+10e6
		limits[0].Clock = other.Now
		require.Equal(t, 1, ask(other, 0).Status, "the slot is free")
		require.NoError(t, client.ZAdd(t.Context(), s.keys[3], redis.Z{Score: given + 10e6, Member: "p"}).Err())
		who.Now = given + 11e6
		require.Zero(t, keep())
		who.Now, who.Run = given+12e6, "another"
		require.Zero(t, keep())
		require.Zero(t, leave("done", "1"))
		require.EqualValues(t, 1, keep())
	})
}
