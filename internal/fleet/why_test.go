package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// situation is one that an operator may find, and what the answer is.
type situation struct {
	name   string
	make   func(s *scene) (which string) // the limit is called api
	reason fleet.Why
	says   []string // in the sentence, or the evidence
	also   []fleet.Why
}

var situations = []situation{
	{"nothing holds it back", func(s *scene) string {
		s.used("api", "", reserve.PerSecond(100))
		return ""
	}, fleet.WhyAvailable, []string{"a new call would have its turn", "1 process lives"}, nil},

	{"the line", func(s *scene) string {
		l := s.used("api", "", reserve.PerHour(60))
		s.waiting(l, l, 8)
		return ""
	}, fleet.WhyLine, []string{"8 calls wait", "in about 9m"}, nil},

	{"the line of a tenant", func(s *scene) string {
		l := s.used("api", "", reserve.PerHour(60)).For("a b")
		require.NoError(s, l.Wait(s.Context()))
		s.waiting(l, l, 2)
		return "a b"
	}, fleet.WhyLine, []string{"2 calls wait"}, nil},

	{"a task that will come back", func(s *scene) string {
		l := s.used("api", "", reserve.PerMinute(1))
		all, err := reserve.All(l)
		require.NoError(s, err)
		for _, call := range all.Join(s.Context(), []reserve.Call{{ID: "default:first"}, {ID: "default:4711"}}) {
			require.NoError(s, call.Err)
		}
		return "4711"
	}, fleet.WhyLine, []string{"booked as number 2"}, nil},

	{"paused, with a reason", func(s *scene) string {
		l := s.used("api", "", reserve.PerSecond(10))
		require.NoError(s, l.Pause(s.Context(), time.Hour, "the status page is red"))
		s.waiting(l, l, 1)
		return ""
	}, fleet.WhyPaused, []string{"paused until", "1h0m0s more", "because: the status page is red"}, nil},

	{"another limit was set", func(s *scene) string {
		l := s.used("api", "", reserve.PerSecond(10))
		require.NoError(s, l.SetLimit(s.Context(), reserve.PerHour(1), time.Hour))
		require.NoError(s, s.SetBy(s.Context(), fleet.Name{Name: "api"}, "", "ann@desk"))
		s.waiting(l, l, 2)
		return ""
	}, fleet.WhySet, []string{"set to 1/hour by ann@desk", "for 1h0m0s more", "made with 10/s"}, nil},

	{"paused, and another limit was set", func(s *scene) string {
		l := s.used("api", "", reserve.PerSecond(10))
		require.NoError(s, l.SetLimit(s.Context(), reserve.PerHour(1), 0))
		require.NoError(s, l.Pause(s.Context(), time.Hour, "both"))
		s.waiting(l, l, 2)
		return ""
	}, fleet.WhyPaused, []string{"because: both", "until it is set again"}, []fleet.Why{fleet.WhySet}},

	{"processes with different limits", func(s *scene) string {
		slow := s.used("api", "", reserve.PerHour(2))
		fast := s.limiter("api", "", reserve.PerSecond(50))
		s.waiting(slow, slow, 1)
		s.waiting(fast, slow, 2)
		require.Eventually(s, func() bool {
			survey, err := s.Survey(s.Context(), fleet.Name{Name: "api"})
			require.NoError(s, err)
			return len(survey.Differ) == 2
		}, eventually, often)
		return ""
	}, fleet.WhyDiffer, []string{"2/hour in", "50/s in 1"}, nil},

	{"all slots are held", func(s *scene) string {
		l := s.used("api", "", reserve.Concurrent(2))
		both, err := reserve.All(l.Flow("nightly"))
		require.NoError(s, err)
		for range 2 {
			r, err := both.Acquire(s.Context())
			require.NoError(s, err)
			s.Cleanup(r.Release)
		}
		s.acquiring(l)
		return ""
	}, fleet.WhySlots, []string{"All 2 slots are held", "(nightly)", "holds 1 slot"}, nil},

	{"all slots are held, and it is paused", func(s *scene) string {
		l := s.used("api", "", reserve.Concurrent(1))
		r, err := l.Acquire(s.Context(), 1)
		require.NoError(s, err)
		s.Cleanup(r.Release)
		require.NoError(s, l.Pause(s.Context(), time.Hour, ""))
		s.acquiring(l)
		return ""
	}, fleet.WhyPaused, []string{"is paused", "All 1 slots are held"}, []fleet.Why{fleet.WhySlots}},

	{"another limit holds it back", func(s *scene) string {
		api, tenant := s.used("api", "shop", reserve.PerSecond(100)), s.used("tenant", "shop", reserve.PerHour(1))
		both, err := reserve.All(api, tenant)
		require.NoError(s, err)
		s.waiting(joint{both}, tenant, 3)
		require.Eventually(s, func() bool {
			survey, err := s.Survey(s.Context(), fleet.Name{Name: "api", Group: "shop"})
			require.NoError(s, err)
			return survey.Waiting() == 3
		}, eventually, often)
		return ""
	}, fleet.WhyHeldBy, []string{`The limit "tenant" holds its calls back`}, nil},

	{"a quota is used up", func(s *scene) string {
		l := s.used("api", "", reserve.Quota(1, reserve.CalendarMonth))
		s.waiting(l, l, 1)
		return ""
	}, fleet.WhyUsedUp, []string{"1/month quota is used up"}, nil},

	{"a rolling limit is used up", func(s *scene) string {
		l := s.used("api", "", reserve.Rolling(1, time.Hour))
		s.waiting(l, l, 1)
		return ""
	}, fleet.WhyUsedUp, []string{"1/hour rolling is used up", "a new call would have its turn in 2h"}, nil},

	{"nobody is alive", func(s *scene) string {
		l := s.used("api", "", reserve.PerHour(1))
		all, err := reserve.All(l)
		require.NoError(s, err)
		require.NoError(s, all.Join(s.Context(), []reserve.Call{{ID: "job"}})[0].Err)
		require.NoError(s, l.Close())
		s.allDied("api")
		return ""
	}, fleet.WhyNobody, []string{"1 call is to come", "no process is alive"}, nil},

	{"nobody has used it for ten minutes", func(s *scene) string {
		l := s.used("api", "", reserve.PerHour(1))
		require.NoError(s, l.Close())
		require.NoError(s, s.client.Del(s.Context(), lua.BeatKeys(s.prefix, "", "api")...).Err())
		return ""
	}, fleet.WhyIdle, []string{"for ten minutes"}, nil},

	{"the state is something else", func(s *scene) string {
		l := s.used("api", "", reserve.PerHour(1))
		require.NoError(s, l.Close())
		key := lua.Keys(s.prefix, "", "api", "p", "")[0]
		require.NoError(s, s.client.Del(s.Context(), key).Err())
		require.NoError(s, s.client.Set(s.Context(), key, "mine", 0).Err())
		return ""
	}, fleet.WhyCorrupt, []string{"WRONGTYPE"}, nil},
}

// acquiring lets a call wait for a slot until the test ends.
func (s *scene) acquiring(l *reserve.Limiter) {
	s.waiting(slotted{l}, l, 1)
}

// slotted waits for a slot, and releases it.
type slotted struct{ *reserve.Limiter }

func (l slotted) Wait(ctx context.Context) error {
	r, err := l.Acquire(ctx, 1)
	if err == nil {
		r.Release()
	}
	return err
}

func TestWhy(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for _, c := range situations {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				s := newScene(t, server)
				which := c.make(s)
				n, err := s.Find(t.Context(), "api")
				require.NoError(t, err)
				answer, err := s.Explain(t.Context(), n, which)
				require.NoError(t, err)
				t.Logf("%s\n  %s", answer.Text, strings.Join(answer.Evidence, "\n  "))
				require.Equal(t, c.reason, answer.Reason)
				all := fmt.Sprint(answer.Text, answer.Evidence)
				for _, text := range c.says {
					require.Contains(t, all, text)
				}
				for _, why := range c.also {
					require.Contains(t, answer.Also, why)
				}
			})
		}
	})
}

func TestWhyOfWhatIsNotThere(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		s := newScene(t, server)
		_, err := s.Find(t.Context(), "api")
		require.ErrorIs(t, err, fleet.ErrUnknown)
		require.ErrorContains(t, err, "is it the right Redis and -prefix?")
		s.used("other", "", reserve.PerSecond(1))
		s.used("both", "a", reserve.PerSecond(1))
		s.used("both", "b", reserve.PerSecond(1))
		_, err = s.Find(t.Context(), "api")
		require.ErrorContains(t, err, "other")
		_, err = s.Find(t.Context(), "both")
		require.ErrorContains(t, err, "say one of a/both, b/both")
		n, err := s.Find(t.Context(), "b/both")
		require.NoError(t, err)
		require.Equal(t, fleet.Name{Name: "both", Group: "b"}, n)
		require.False(t, fleet.IsAway(err))
	})
}

func TestAwayIsAnAnswer(t *testing.T) {
	a := fleet.Away("api", errors.New("connection refused"))
	require.Equal(t, fleet.WhyAway, a.Reason)
	require.Equal(t, []string{"connection refused"}, a.Evidence)
	require.True(t, fleet.IsAway(errors.New("connection refused")))
	require.False(t, fleet.IsAway(reserve.ErrCorrupt))
	require.False(t, fleet.IsAway(fleet.ErrUnknown))
}
