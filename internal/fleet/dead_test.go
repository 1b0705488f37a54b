package fleet_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// Whether all processes were killed while calls waited, or after the last call, or have ended: the answer says so, for
// each kind of limit, and also if the limit is paused, stopped or used up.
func TestWhyDeadFleets(t *testing.T) {
	server := redistest.New(t)
	limits := map[string]reserve.Limit{
		"paced": reserve.PerHour(1), "warming": reserve.PerHour(1).WarmUp(time.Minute), "rolling": reserve.Rolling(1, time.Hour),
		"quota": reserve.Quota(1, reserve.CalendarMonth), "slots": reserve.Concurrent(1),
	}
	for kind, limit := range limits {
		for _, end := range []string{"killed with calls", "killed", "closed"} {
			for _, state := range []string{"free", "paused", "stopped"} {
				t.Run(fmt.Sprint(kind, ", ", end, ", ", state), func(t *testing.T) {
					t.Parallel()
					s := newScene(t, server)
					s.ends(limit, end)
					reader, err := s.reader.Limiter(api, limit)
					require.NoError(t, err)
					switch state {
					case "paused":
						require.NoError(t, reader.Pause(t.Context(), time.Hour, "red"))
					case "stopped":
						require.NoError(t, reader.Stop(t.Context(), time.Time{}, "no credit"))
					}
					a := s.explain("")
					t.Log(a.Text, a.More)
					says := map[string]string{
						"killed with calls": `^2 calls wait, and no process is alive in this Redis to make the calls\.`,
						"killed":            `^No process is alive in this Redis to make calls: 1 died in the last ten minutes\.`,
						"closed":            `^No process is known to be alive in this Redis: the last one closed 14(\.\d)?s ago\.`,
					}[end]
					first, also := a.Text, a.More
					held := int64(0)
					if end == "killed with calls" {
						held = 2
					} else if state != "free" { // the pause comes first, as no call waits
						first, also = also, first
						require.NotEqual(t, fleet.WhyNobody, a.Reason)
					}
					if held > 0 || state == "free" {
						require.Equal(t, fleet.WhyNobody, a.Reason)
						require.Contains(t, a.Do, "Start workers; if they run, compare their Redis URL and prefix.")
					}
					require.Equal(t, held, a.Held)
					require.Regexp(t, says, first)
					switch state {
					case "paused":
						require.Contains(t, also, "It is paused until ")
					case "stopped":
						require.Contains(t, also, "It is stopped, and calls fail, because: no credit.")
					default:
						require.Equal(t, kind == "quota" || kind == "rolling", strings.Contains(also, "is used up: permits come back in about "), also)
					}
					for _, e := range a.Evidence {
						require.NotContains(t, e, "would have its turn")
						require.NotContains(t, a.Text+a.More, e, "it is said twice")
					}
					sentence(t, a.Text)
					lines, err := s.reader.Lines(t.Context(), 1, nil)
					require.NoError(t, err)
					require.Zero(t, lines[0].Processes)
					require.Equal(t, a.Reason, lines[0].Why.Reason)
				})
			}
		}
	}
}

// ends ends the only process of a limit, and removes what it held. Calls wait only where it is killed with calls.
func (s *scene) ends(limit reserve.Limit, end string) {
	s.Helper()
	l, client := s.process(reserve.Config{Limit: limit})
	held, err := l.Acquire(s.Context(), 1)
	require.NoError(s, err)
	if end == "killed with calls" {
		s.waits(2, func(ctx context.Context) error {
			r, err := l.Acquire(ctx, 1)
			if err == nil {
				r.Release()
			}
			return err
		})
		s.told(2)
	} else {
		held.Release()
		s.known(1)
		s.until("it holds no slots", func() bool {
			look, err := s.reader.Look(s.Context(), api, 1, "")
			return err == nil && len(look.Rows) > 0 && look.Rows[0].Held == 0
		})
	}
	if end == "closed" {
		require.NoError(s, l.Close())
		s.until("it is closed", func() bool {
			look, err := s.reader.Survey(s.Context(), api)
			return err == nil && len(look.Processes) == 1 && look.Processes[0].Report.Closed
		})
		survey, err := s.reader.Survey(s.Context(), api)
		require.NoError(s, err)
		now, err := s.client.Time(s.Context()).Result()
		require.NoError(s, err)
		require.NoError(s, s.client.HSet(s.Context(), s.beats()[2], survey.Processes[0].ID, fmt.Sprint("- ", now.Add(-14*time.Second).UnixMicro())).Err())
		return
	}
	require.NoError(s, client.Close())
	s.silent(4*time.Second, true)
}

// A process that has closed its limiter is not taken for the last one while another is idle, which may live.
func TestWhyIdleFleets(t *testing.T) {
	t.Parallel()
	s := newScene(t, redistest.New(t))
	l := s.paced(reserve.PerSecond(100).Burst(100))
	other := s.paced(reserve.PerSecond(100).Burst(100))
	s.known(2)
	require.NoError(t, l.Close())
	s.until("one is idle", func() bool { // after ten seconds without calls
		survey, err := s.reader.Survey(t.Context(), api)
		require.NoError(t, err)
		return survey.Alive() == 0
	})
	a := s.explain("")
	require.Equal(t, fleet.WhyAvailable, a.Reason)
	require.Equal(t, "Nothing holds it back: a call would have its turn now. No process has made a call for 10s or more: 1 is idle.", a.Text)
	require.NotContains(t, strings.Join(a.Evidence, "\n"), "all living processes")
	require.NoError(t, other.Wait(t.Context()))
}
