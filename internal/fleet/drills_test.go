package fleet_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// If Redis refuses to write, heartbeats are missing although the processes live.
func TestWhyRedisIsFull(t *testing.T) {
	t.Parallel()
	s := newScene(t, redistest.Local(t, "--save", "")) // of this test alone
	l, client := s.process(reserve.Config{Limit: reserve.PerSecond(100)})
	require.NoError(t, l.Wait(t.Context()))
	s.quiet(1)
	require.NoError(t, client.Close())
	s.silent(4*time.Second, false)
	require.Equal(t, fleet.WhyNobody, s.explain("").Reason)
	require.NoError(t, s.client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	a := s.explain("")
	require.Equal(t, fleet.WhyNoWrites, a.Reason, a.Text)
	require.Equal(t, "Redis is full, and refuses to write, so each process follows its outage policy.", a.Text)
	require.Contains(t, a.More, "The error: redis is unavailable: OOM")
	require.Empty(t, a.Also)
	require.NotContains(t, strings.Join(a.Evidence, "\n"), " alive", "nobody knows")
	require.NotContains(t, strings.Join(a.Evidence, "\n"), "(dead)")
	look, err := s.reader.Look(t.Context(), api, 1)
	require.NoError(t, err)
	require.Equal(t, "4s ago, Redis refuses to write", look.Processes[0].Beat())
	require.Contains(t, look.Refuses(), "Redis is full, and refuses to write")
	require.Zero(t, look.Dead())
	require.Equal(t, "not known", look.NewCall(&look.Rows[0]))
	require.Equal(t, "fleetpace doctor", a.Command)
	sentence(t, a.Text)
	require.NoError(t, s.client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	require.Equal(t, fleet.WhyNobody, s.explain("").Reason)
}

// A full Redis is found while the heartbeats that were written before still count, and where nobody could write any.
func TestWhyRedisIsFullAtOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t, redistest.Local(t, "--maxmemory-policy", "noeviction"))
	require.Nil(t, s.reader.Refused(t.Context()))
	for limit, name := range map[reserve.Limit]string{reserve.PerSecond(100).Burst(100): "api", reserve.Rolling(9, time.Hour): "rolling", reserve.Quota(9, reserve.CalendarMonth): "quota", reserve.Concurrent(9): "slots"} {
		l, _ := s.process(reserve.Config{Name: name, Limit: limit, Logger: slog.New(slog.DiscardHandler)})
		held, err := l.Acquire(t.Context(), 1)
		require.NoError(t, err)
		held.Release()
	}
	names := func() []fleet.Name {
		all, err := s.reader.Names(t.Context())
		require.NoError(t, err)
		return all
	}
	s.until("the limits are known", func() bool { return len(names()) == 4 })
	for _, n := range names() {
		a, err := s.reader.Explain(t.Context(), n, "")
		require.NoError(t, err)
		require.Equal(t, fleet.WhyAvailable, a.Reason, n)
	}
	require.NoError(t, s.client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	for _, n := range names() {
		a, err := s.reader.Explain(t.Context(), n, "")
		require.NoError(t, err)
		require.Equal(t, fleet.WhyNoWrites, a.Reason, n)
		require.Equal(t, "fleetpace doctor", a.Command)
	}
	lines, err := s.reader.Lines(t.Context(), 1, nil)
	require.NoError(t, err)
	for i := range lines {
		require.Equal(t, fleet.WhyNoWrites, lines[i].Why.Reason, lines[i].Name)
		require.Contains(t, lines[i].Error, "Redis is full")
	}
	a := s.reader.Refused(t.Context())
	require.NotNil(t, a)
	require.Equal(t, fleet.WhyNoWrites, a.Reason)
	require.Equal(t, "fleetpace doctor", a.Command)
	sentence(t, a.Text)
	require.NoError(t, s.client.ConfigSet(t.Context(), "maxmemory", "0").Err())
}

// A user who may not write cannot tell a full Redis from dead processes, and the answer says so.
func TestWhyOfAnObserver(t *testing.T) {
	t.Parallel()
	s := newScene(t, redistest.Local(t, "--save", "")) // of this test alone
	l, client := s.process(reserve.Config{Limit: reserve.PerMinute(1)})
	require.NoError(t, l.Wait(t.Context()))
	s.waits(1, l.Wait)
	s.told(1)
	require.NoError(t, client.Close())
	s.silent(4*time.Second, false)
	require.Empty(t, s.explain("").More)
	require.NoError(t, s.client.Do(t.Context(), "ACL", "SETUSER", "default", "-zadd").Err())
	a := s.explain("")
	require.Equal(t, fleet.WhyNobody, a.Reason, a.Text)
	require.Equal(t, "Redis may also refuse to write, for example because it is full: this user may not try.", a.More)
	require.NoError(t, s.client.Do(t.Context(), "ACL", "SETUSER", "default", "+@all").Err())
}

// The only process holds all slots, and is suspended. When it goes on, the limit does not count as standing still.
func TestWhySlotsOfAProcessThatGoesOn(t *testing.T) {
	t.Parallel()
	s := newScene(t, redistest.New(t))
	l, client := s.slots(1, 1)
	s.waitsForSlot(l)
	require.NoError(t, client.Close())
	held, err := s.client.ZRange(t.Context(), s.keys("s", "")[2], 0, 0).Result()
	require.NoError(t, err)
	ago := func(d time.Duration) int64 {
		now, err := s.client.Time(t.Context()).Result()
		require.NoError(t, err)
		return now.Add(-d).UnixMicro()
	}
	require.NoError(t, s.client.ZAdd(t.Context(), s.keys("s", "")[2], redis.Z{Score: float64(ago(time.Minute)), Member: held[0]}).Err())
	for gone, severity := range map[time.Duration]fleet.Severity{time.Second: fleet.SeverityLook, 10 * time.Second: fleet.SeverityStop} {
		require.NoError(t, s.client.HSet(t.Context(), s.beats()[1], "since", ago(gone)).Err())
		s.silent(0, false)
		a := s.explain("")
		require.Equal(t, fleet.WhySlots, a.Reason)
		require.Equal(t, severity, a.Severity, "%v: %s", gone, a.More)
	}
}

// An answer promises no turn where nobody knows it, and names what mends.
func TestWhyDrills(t *testing.T) {
	server := redistest.New(t)
	for what, c := range map[string]struct {
		make             func(s *scene)
		why              fleet.Why
		text, do, absent string
	}{
		"a stop without an end": {func(s *scene) {
			require.NoError(s, s.paced(reserve.PerSecond(100)).Stop(s.Context(), time.Time{}, "no credit"))
			s.known(1)
		}, fleet.WhyStopped, "calls fail, because: no credit. No end is known", "fleetpace resume api", "would have its turn"},
		"a stop with an end": {func(s *scene) {
			require.NoError(s, s.paced(reserve.PerSecond(100)).Stop(s.Context(), time.Now().Add(time.Hour), "no credit"))
			s.known(1)
		}, fleet.WhyStopped, "for (59m|1h).* more", "fleetpace resume api", "would have its turn"},
		"slots that are held": {func(s *scene) {
			s.slots(1, 1)
			s.known(1)
		}, fleet.WhySlots, "All 1 slots", "fleetpace release api", "would have its turn"},
		"a quota that was set to less": {func(s *scene) {
			l := s.paced(reserve.Quota(3, reserve.CalendarMonth))
			require.NoError(s, l.SetLimit(s.Context(), reserve.Quota(2, reserve.CalendarMonth), 0))
			require.NoError(s, l.Wait(s.Context()))
			s.waits(1, l.Wait)
			s.told(1)
		}, fleet.WhyUsedUp, "used up", "The configured limit is 3/month quota.* fleetpace reset api", "If the provider"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, server)
			c.make(s)
			a := s.explain("")
			require.Equal(t, c.why, a.Reason)
			require.Regexp(t, c.text, a.Text)
			require.Regexp(t, c.do, a.Do+" "+a.Command)
			require.NotContains(t, a.Do+strings.Join(a.Evidence, "\n"), c.absent)
			sentence(t, a.Text)
		})
	}
}
