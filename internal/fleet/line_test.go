package fleet_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// A line says how many of the calls do not go on for a good reason, and how many nobody lives for.
func TestLineOfCallsThatDoNotGoOn(t *testing.T) {
	server := redistest.New(t)
	for _, c := range []struct {
		what string
		make func(s *scene)
		want fleet.Line // of its counts of calls alone
		ages bool       // some calls wait that are not held
	}{
		{what: "the queue", ages: true, want: fleet.Line{Waiting: 3}, make: func(s *scene) {
			s.waits(3, s.paced(reserve.PerHour(1)).Wait)
			s.told(3)
		}},
		{what: "a pause", want: fleet.Line{Waiting: 3, Booked: 1, HeldCalls: 4, MustWait: true}, make: func(s *scene) {
			l := s.paced(reserve.PerHour(1))
			s.waits(3, l.Wait)
			s.told(3)
			s.books(l, "task-1")
			require.NoError(s, l.Pause(s.Context(), time.Hour, ""))
		}},
		{what: "a pause of one of two keys", ages: true, want: fleet.Line{Waiting: 4, HeldCalls: 3, MustWait: true}, make: func(s *scene) {
			l := s.paced(reserve.PerHour(1))
			for key, calls := range map[string]int{"paused": 3, "free": 1} {
				require.NoError(s, l.For(key).Wait(s.Context()))
				s.waits(calls, l.For(key).Wait)
			}
			require.NoError(s, l.For("paused").Pause(s.Context(), time.Hour, ""))
			s.until("the calls are told of", func() bool {
				survey, err := s.reader.Survey(s.Context(), api)
				return err == nil && survey.Waiting() == 4
			})
		}},
		{what: "another limit", want: fleet.Line{Waiting: 3, HeldCalls: 3}, make: func(s *scene) {
			client := s.server.Client(s)
			calls := s.limiter(client, reserve.Config{Limit: reserve.PerSecond(100), Group: "g"})
			slow := s.limiter(client, reserve.Config{Name: "slow", Limit: reserve.PerHour(1), Group: "g"})
			both := s.joint(calls, slow)
			s.waits(4, func(ctx context.Context) error { return both.Wait(ctx) })
			s.until("the report says so", func() bool {
				survey, err := s.reader.Survey(s.Context(), fleet.Name{Name: "api", Group: "g"})
				return err == nil && len(survey.Keys) == 1 && survey.Keys[0].HeldBack == 3
			})
		}},
		{what: "calls wait in a process that has died", want: fleet.Line{Waiting: 3, Unclaimed: 3}, make: func(s *scene) {
			s.abandoned(3)
			s.silent(time.Minute, true)
		}},
		{what: "bookings, and all processes have ended", want: fleet.Line{Booked: 2, Unclaimed: 2}, make: func(s *scene) {
			s.bookedWithoutWorkers()
			s.forgotten(false)
		}},
		{what: "bookings, and all processes have ended long ago", want: fleet.Line{Booked: 2, Unclaimed: 2}, make: func(s *scene) {
			s.bookedWithoutWorkers()
			s.forgotten(true)
		}},
		{what: "bookings far ahead, whose workers need not tell that they live", want: fleet.Line{Booked: 2}, make: func(s *scene) {
			s.booked("task-1", "task-2")
			s.forgotten(false)
		}},
		{what: "a quota of a month is used up", want: fleet.Line{Waiting: 3, HeldCalls: 3, MustWait: true}, make: func(s *scene) {
			s.waits(3, s.paced(reserve.Quota(1, reserve.CalendarMonth)).Wait)
			s.told(3)
		}},
		{what: "what is left of a quota is less than a call costs", want: fleet.Line{Waiting: 1, HeldCalls: 1, MustWait: true}, make: func(s *scene) {
			l, _ := s.process(reserve.Config{Limit: reserve.Quota(15, reserve.CalendarMonth)})
			costly := func(ctx context.Context) error { return l.WaitN(ctx, 10) }
			require.NoError(s, costly(s.Context()))
			s.waits(1, costly)
			s.told(1)
		}},
		{what: "a rolling limit of a minute is used up, which is a queue", ages: true, want: fleet.Line{Waiting: 3}, make: func(s *scene) {
			s.waits(3, s.paced(reserve.Rolling(1, time.Minute)).Wait)
			s.told(3)
		}},
		{what: "the used-up quota of another limit", want: fleet.Line{Waiting: 3, HeldCalls: 3, MustWait: true}, make: func(s *scene) {
			s.heldByQuota("")
		}},
		{what: "the used-up quota of a key of another limit", want: fleet.Line{Waiting: 3, HeldCalls: 3, MustWait: true}, make: func(s *scene) {
			s.heldByQuota("acme")
		}},
		{what: "a pause, and nobody lives", want: fleet.Line{Waiting: 3, HeldCalls: 3, MustWait: true}, make: func(s *scene) {
			s.abandoned(3)
			s.silent(time.Minute, true)
			l, err := reserve.New(s.client, reserve.Config{Name: "api", Prefix: s.prefix, Limit: reserve.PerMinute(1)})
			require.NoError(s, err)
			require.NoError(s, l.Pause(s.Context(), time.Hour, ""))
			require.NoError(s, l.Close())
		}},
		{what: "nothing", want: fleet.Line{}, make: func(s *scene) {
			s.paced(reserve.PerSecond(100))
			s.known(1)
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, server)
			c.make(s)
			var line fleet.Line
			s.until("it is so", func() bool { // what processes tell is up to a second old
				lines, err := s.reader.Lines(s.Context(), 10, nil)
				require.NoError(s, err)
				for _, l := range lines {
					if l.Name == "api" {
						line = l
					}
				}
				t.Logf("%+v", line)
				return line.Waiting == c.want.Waiting && line.Booked == c.want.Booked && line.HeldCalls == c.want.HeldCalls &&
					line.Unclaimed == c.want.Unclaimed && line.MustWait == c.want.MustWait && c.ages == (line.OldestNotHeld > 0)
			})
		})
	}
}

func (s *scene) joint(limits ...*reserve.Limiter) *reserve.Joint {
	s.Helper()
	j, err := reserve.All(limits...)
	require.NoError(s, err)
	return j
}

// heldByQuota makes three calls wait that also need a quota, or its key, which is used up.
func (s *scene) heldByQuota(key string) {
	s.Helper()
	client := s.server.Client(s)
	calls := s.limiter(client, reserve.Config{Limit: reserve.PerSecond(100), Group: "g"})
	quota := s.limiter(client, reserve.Config{Name: "quota", Limit: reserve.Quota(1, reserve.CalendarMonth), Group: "g"})
	if key != "" {
		quota = quota.For(key)
	}
	both := s.joint(calls, quota)
	s.waits(4, func(ctx context.Context) error { return both.Wait(ctx) })
	s.until("the report says so", func() bool {
		survey, err := s.reader.Survey(s.Context(), fleet.Name{Name: "api", Group: "g"})
		return err == nil && len(survey.Keys) == 1 && survey.Keys[0].HeldBack == 3
	})
}

// A line says how many keys are paused, of those whose states were read. The flows of a key are apart from those of others, each
// with what is due to it.
func TestPausedKeysAndFlowsOfAKey(t *testing.T) {
	t.Parallel()
	s := newScene(t, redistest.Mini(t))
	l, _ := s.process(reserve.Config{Limit: reserve.Every(time.Hour)})
	for _, key := range []string{"acme", "other", "third"} {
		require.NoError(t, l.For(key).Wait(t.Context()))
	}
	s.waits(2, l.For("acme").Flow("small").Wait)
	s.waits(1, l.For("acme").Flow("large").Weight(3).Wait)
	s.waits(4, l.For("other").Flow("else").Wait)
	s.until("the calls wait", func() bool {
		survey, err := s.reader.Survey(t.Context(), api)
		require.NoError(t, err)
		return survey.Waiting() == 7
	})
	require.NoError(t, l.For("third").Pause(t.Context(), time.Hour, ""))
	look, err := s.reader.Look(t.Context(), api, 2)
	require.NoError(t, err)
	line := look.Line(nil)
	require.Equal(t, []int{3, 2, 0}, []int{line.Keys, line.ReadKeys, line.PausedKeys})
	look, err = s.reader.Look(t.Context(), api, 8)
	require.NoError(t, err)
	line = look.Line(nil)
	require.Equal(t, []int{3, 3, 1}, []int{line.Keys, line.ReadKeys, line.PausedKeys})
	flows := look.FlowsOf("acme")
	require.Len(t, flows, 2)
	require.Equal(t, []any{"small", 2, 1., 0.25}, []any{flows[0].Key, flows[0].Calls, flows[0].Weight, flows[0].Due})
	require.Equal(t, []any{"large", 1, 3., 0.75}, []any{flows[1].Key, flows[1].Calls, flows[1].Weight, flows[1].Due})
	require.Empty(t, look.FlowsOf(""))
}
