package fleet_test

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/internal/wire"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// Whether all processes were killed while calls waited, or after the last call, or have ended: the answer says so, for
// each kind of limit, and also if the limit is paused, stopped or used up. Redis may have been full meanwhile. Processes
// whose tasks are put back, and those whose heartbeats a full Redis did not take, may live, and no answer says that none does.
func TestWhyDeadFleets(t *testing.T) {
	t.Parallel()
	server, full := redistest.New(t), wasFull(t)
	limits := map[string]reserve.Limit{
		"paced": reserve.PerHour(1), "warming": reserve.PerHour(1).WarmUp(time.Minute), "rolling": reserve.Rolling(1, time.Hour),
		"quota": reserve.Quota(1, reserve.CalendarMonth), "slots": reserve.Concurrent(1),
	}
	for kind, limit := range limits {
		for _, end := range []string{"killed with calls", "killed", "closed", "killed while Redis was full", "put back, and another one was killed", "put back long ago, and another one was killed", "put back, and another one was killed while a call waited", "silent while Redis was full", "silent with calls while Redis was full"} {
			if kind == "slots" && strings.HasSuffix(end, "a call waited") { // a slot is free
				continue
			}
			for _, state := range []string{"free", "paused", "stopped"} {
				t.Run(fmt.Sprint(kind, ", ", end, ", ", state), func(t *testing.T) {
					s := newScene(t, full)
					if !strings.Contains(end, "full") {
						t.Parallel()
						s = newScene(t, server)
					}
					s.ends(limit, end)
					reader, err := s.reader.Limiter(api, limit)
					require.NoError(t, err)
					switch state {
					case "paused":
						require.NoError(t, reader.Pause(t.Context(), time.Hour, "red"))
					case "stopped":
						require.NoError(t, reader.Stop(t.Context(), time.Time{}, "no credit"))
					}
					if strings.Contains(end, "full") {
						s.full(end != "killed while Redis was full")
					}
					a := s.explain("")
					t.Log(a.Text, a.More)
					if !s.dead(end, state, a) {
						return
					}
					says := map[string]string{
						"killed with calls":           `^2 calls wait, and no process is alive in this Redis to make the calls\.`,
						"killed":                      `^No process is alive in this Redis to make calls: 1 died in the last ten minutes\.`,
						"closed":                      `^No process is known to be alive in this Redis: the last one closed 14s ago\.`,
						"killed while Redis was full": `^No process is alive in this Redis to make calls: 1 died in the last ten minutes\.`,
					}[end]
					first, also := a.Text, a.More
					held := int64(0)
					if end == "killed with calls" {
						held = 2
					} else if state != "free" { // the pause comes first, as no call waits; who resumes has to know both
						require.NotEqual(t, fleet.WhyNobody, a.Reason)
						require.Empty(t, a.More)
						at := strings.Index(a.Text, " No process is ")
						require.Positive(t, at)
						first, also = a.Text[at+1:], a.Text[:at]
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

// dead reports whether the answer has to say that no process is alive. It checks the answers that must not.
func (s *scene) dead(end, state string, a *fleet.Answer) bool {
	s.Helper()
	silent := strings.HasPrefix(end, "silent")
	if !silent && !strings.HasPrefix(end, "put back") {
		return true
	}
	all := strings.Join(append([]string{a.Text, a.More}, a.Evidence...), "\n")
	require.NotRegexp(s, "(?i)no process is alive", all)
	if state != "stopped" { // else the first line has three sentences
		sentence(s.T, a.Text)
	}
	says := map[string]string{"paused": "It is paused until ", "stopped": "It is stopped, and calls fail"}[state]
	if silent {
		require.Regexp(s, "o process has sent a heartbeat for 4s\\. Redis was full, and took none: whether a process is alive is known in about a second\\.", all)
		require.Equal(s, state == "free", a.Reason == fleet.WhySilent)
		require.Contains(s, all, "0 processes are alive, 1 silent: Redis was full, 0 dead")
		require.Equal(s, map[bool]int64{true: 2}[end == "silent with calls while Redis was full"], a.Held)
	} else {
		long := strings.HasPrefix(end, "put back long ago")
		require.Equal(s, long, strings.Contains(all, "2 calls are booked, and no process is known to be alive in this Redis: 1 died in the last ten minutes."))
		require.Equal(s, !long, strings.Contains(all, "0 processes are alive, 1 idle, 1 dead in the last ten minutes"))
		held := int64(2)
		if strings.HasSuffix(end, "a call waited") {
			held, says = 3, "^1 call waits, and no process sends heartbeats to make the calls: 1 process is idle and may live\\.$"
		}
		require.Equal(s, held, a.Held)
	}
	require.Regexp(s, says, a.Text)
	return false
}

// wasFull is a Redis of this test alone that was full for longer than processes are silent here, but for some heartbeats.
func wasFull(t *testing.T) *redistest.Server {
	server := redistest.Local(t, "--save", "")
	client := server.Client(t)
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	require.Eventually(t, func() bool {
		stats, err := client.Info(t.Context(), "stats").Result()
		_, after, _ := strings.Cut(stats, "total_eviction_exceeded_time:")
		full := 0
		_, none := fmt.Sscan(after, &full)
		return err == nil && none == nil && full > 2500
	}, 20*time.Second, 20*time.Millisecond)
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "1gb").Err())
	return server
}

// informs answers as a Redis that tells these figures.
type informs map[string]string

func (informs) DialHook(next redis.DialHook) redis.DialHook { return next }

func (informs) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h informs) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if info, is := cmd.(*redis.StringCmd); is && cmd.Name() == "info" {
			for name, value := range h {
				info.SetVal(regexp.MustCompile(`(?m)^`+name+`:\d+`).ReplaceAllString(info.Val(), name+":"+value))
			}
		}
		return err
	}
}

// After a time in which Redis was full, processes that were killed count as dead, although other programs run scripts in
// it. Processes that listen are silent, for half a minute at most.
func TestWhyAfterAFullRedis(t *testing.T) {
	server := redistest.Local(t, "--save", "")
	for _, c := range []struct {
		silent  time.Duration
		listens bool
		why     fleet.Why
	}{
		{4 * time.Second, true, fleet.WhySilent},
		{40 * time.Second, true, fleet.WhyNobody},
		{4 * time.Second, false, fleet.WhyNobody},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			s := newScene(t, server)
			s.informs["total_eviction_exceeded_time"] = "3600000" // it was once full for an hour
			s.ends(reserve.PerHour(1), "killed with calls")
			s.silent(c.silent, false)
			if c.listens {
				s.listens()
			}
			require.NoError(t, lua.Beat.Run(t.Context(), s.server.Client(s), []string{"{other}:processes", "{other}:beats"}, "", "lives", 3_000_000, "", 1, lua.Protocol).Err())
			require.Equal(t, c.why, s.explain("").Reason)
		})
	}
}

// When Redis has just started with its data, heartbeats are as old as its end. No process counts as dead that was silent
// since before, until the fleet had time to come back.
func TestWhyAfterARestart(t *testing.T) {
	server := redistest.New(t)
	for _, c := range []struct {
		up     string
		silent time.Duration
		dead   bool // another process has found it dead
		why    fleet.Why
		beat   string
	}{
		{"0", 4 * time.Second, false, fleet.WhySilent, "s ago, Redis has just started"},
		{"3", time.Hour, false, fleet.WhySilent, "s ago, Redis has just started"},
		{"4", time.Hour, false, fleet.WhyNobody, "s ago, dead"},
		{"0", 4 * time.Second, true, fleet.WhyNobody, "found dead 4s ago"},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			s := newScene(t, server)
			s.informs["uptime_in_seconds"] = c.up
			s.ends(reserve.PerHour(1), "killed with calls")
			s.silent(c.silent, c.dead)
			a := s.explain("")
			require.Equal(t, c.why, a.Reason)
			require.EqualValues(t, 2, a.Held)
			look, err := s.reader.Look(t.Context(), api, 1)
			require.NoError(t, err)
			require.Regexp(t, c.beat, look.Processes[0].Beat())
			if c.why == fleet.WhySilent {
				require.Regexp(t, `^2 calls wait, and no process has sent a heartbeat for \S+s\. Redis has just started, and processes are not back yet: in 4s at most it is known whether one is alive\.$`, a.Text)
				require.Contains(t, strings.Join(a.Evidence, "\n"), "0 processes are alive, 1 silent: Redis has just started, 0 dead")
			}
			sentence(t, a.Text)
		})
	}
}

// listens is a process that listens to the news of the limit.
func (s *scene) listens() {
	s.Helper()
	news := s.server.Client(s).Subscribe(s.Context(), lua.Channel(s.prefix, api.Group, api.Name))
	_, err := news.Receive(s.Context())
	require.NoError(s, err)
	s.Cleanup(func() { _ = news.Close() })
}

// full lets all processes be silent because Redis is full, and then Redis has room again. If one lives, it listens.
func (s *scene) full(lives bool) {
	s.Helper()
	s.silent(4*time.Second, false)
	require.NoError(s, s.client.ConfigSet(s.Context(), "maxmemory", "1").Err())
	if lives {
		s.listens()
	}
	require.Equal(s, fleet.WhyNoWrites, s.explain("").Reason)
	require.NoError(s, s.client.ConfigSet(s.Context(), "maxmemory", "1gb").Err())
}

// ends ends the only process of a limit, and removes what it held. Calls wait only where it is killed with calls.
func (s *scene) ends(limit reserve.Limit, end string) {
	s.Helper()
	l, client := s.process(reserve.Config{Limit: limit})
	held, err := l.Acquire(s.Context(), 1)
	require.NoError(s, err)
	if strings.HasPrefix(end, "put back") {
		s.books(l, "task-1", "task-2")
	}
	if strings.Contains(end, "with calls") {
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
		s.quiet(1)
		s.until("it holds no slots", func() bool {
			look, err := s.reader.Look(s.Context(), api, 1, "")
			return err == nil && len(look.Rows) > 0 && look.Rows[0].Held == 0
		})
	}
	if putBack := strings.HasPrefix(end, "put back"); putBack || end == "closed" {
		require.NoError(s, l.Close())
		s.until("it is closed", func() bool {
			look, err := s.reader.Survey(s.Context(), api)
			return err == nil && len(look.Processes) == 1 && look.Processes[0].Report.Closed
		})
		survey, err := s.reader.Survey(s.Context(), api)
		require.NoError(s, err)
		now, err := s.client.Time(s.Context()).Result()
		require.NoError(s, err)
		p := &survey.Processes[0]
		require.NoError(s, s.client.HSet(s.Context(), s.beats()[2], p.ID, fmt.Sprint("- ", now.Add(-14*time.Second).UnixMicro())).Err())
		if !putBack {
			s.clock.at = now
			return
		}
		p.Report.Closed = false // as if it had no calls for ten seconds, because its tasks are put back
		require.NoError(s, s.client.HSet(s.Context(), s.beats()[3], p.ID, p.Report.Text()).Err())
		if strings.Contains(end, "long ago") { // Redis forgets it after ten minutes
			require.NoError(s, s.client.HDel(s.Context(), s.beats()[2], p.ID).Err())
		}
		l, client = s.process(reserve.Config{Limit: limit})
		if strings.HasSuffix(end, "a call waited") {
			s.waits(1, l.Wait)
			s.told(1)
			require.NoError(s, client.Close())
			s.silent(4*time.Second, true)
			return
		}
		ctx, cancel := context.WithCancel(s.Context())
		var asks sync.WaitGroup
		var had atomic.Bool
		asks.Go(func() {
			if r, err := l.Acquire(ctx, 1); err == nil {
				r.Release()
				had.Store(true)
			}
		})
		s.known(1)
		s.until("its call waits in Redis, or has had its turn", func() bool {
			look, err := s.reader.Look(s.Context(), api, 1, "")
			return had.Load() || err == nil && len(look.Rows) > 0 && look.Rows[0].Waiting == 1
		})
		cancel()
		asks.Wait()
		s.until("no call waits", func() bool {
			look, err := s.reader.Look(s.Context(), api, 1, "")
			return err == nil && look.Rows[0].Waiting == 0 && look.Waiting() == 0 && look.Rows[0].Held == 0
		})
	}
	require.NoError(s, client.Close())
	s.silent(4*time.Second, true)
}

// The places of calls in Redis end before the reports of their processes do. The answer says how many calls waited, unless a
// process lived on without them, or ended in order.
func TestWhyLostCalls(t *testing.T) {
	server := redistest.New(t)
	for _, c := range []struct {
		later string // what happens after the places have ended
		lost  int64
		says  string
	}{
		{"", 2, "^2 calls waited when their processes last reported, and no process is alive in this Redis to make the calls\\.$"},
		{"paused", 2, "^2 calls waited when .*, and no process is alive"},
		{"found dead", 2, "^2 calls waited when .*, and no process is alive"},
		{"they may have had their turns since", 0, "^No process is alive in this Redis to make calls: 1 died"},
		{"another one was idle before", 2, "^2 calls waited when .*, and no process sends heartbeats to make the calls: 1 process is idle and may live\\.$"},
		{"another one has ended since", 0, "^No process is alive in this Redis to make calls: 1 died"},
		{"another one was killed since, without calls", 0, "^No process is alive in this Redis to make calls: 2 died"},
		{"another one lives", 0, "^Nothing holds it back"},
		{"ended in order", 0, "^No process is known to be alive in this Redis: the last one closed"},
	} {
		t.Run(c.later, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, server)
			l, client := s.process(reserve.Config{Limit: reserve.PerHour(1)})
			of := l.For("acme")
			require.NoError(t, of.Wait(t.Context()))
			s.waits(2, of.Wait)
			s.until("the calls wait", func() bool {
				survey, err := s.reader.Survey(t.Context(), api)
				return err == nil && survey.Waiting() == 2
			})
			if c.later == "ended in order" {
				require.NoError(t, l.Close())
				s.known(0)
			}
			require.NoError(t, client.Close())
			s.silent(4*time.Second, c.later == "found dead")
			processes, err := s.client.ZRange(t.Context(), s.beats()[0], 0, -1).Result()
			require.NoError(t, err)
			require.NoError(t, s.client.Del(t.Context(), s.keys("p", "acme")[:3]...).Err())
			switch {
			case c.later == "they may have had their turns since":
				reader, err := s.reader.Limiter(api, reserve.PerHour(1))
				require.NoError(t, err)
				require.NoError(t, reader.For("acme").SetLimit(t.Context(), reserve.PerSecond(2), 0))
			case c.later == "paused":
				reader, err := s.reader.Limiter(api, reserve.PerHour(1))
				require.NoError(t, err)
				require.NoError(t, reader.For("acme").Pause(t.Context(), time.Hour, "red"))
			case strings.HasPrefix(c.later, "another one was idle"):
				now, err := s.client.Time(t.Context()).Result()
				require.NoError(t, err)
				require.NoError(t, s.client.HSet(t.Context(), s.beats()[2], "idle", fmt.Sprint("- ", now.Add(-time.Minute).UnixMicro())).Err())
				require.NoError(t, s.client.HSet(t.Context(), s.beats()[3], "idle", (&wire.Report{Host: "desk", PID: 1, Ended: true}).Text()).Err())
			case strings.HasPrefix(c.later, "another one"):
				next, client := s.process(reserve.Config{Limit: reserve.PerHour(1).Burst(9), Logger: slog.New(slog.DiscardHandler)})
				require.NoError(t, next.For("acme").Wait(t.Context()))
				s.quiet(1)
				if c.later == "another one has ended since" {
					require.NoError(t, next.Close())
					s.known(0)
				} else if c.later != "another one lives" { // it found the first one dead
					require.NoError(t, client.Close())
					s.silent(4*time.Second, false)
					now, err := s.client.Time(t.Context()).Result()
					require.NoError(t, err)
					found := redis.Z{Member: processes[0], Score: -float64(now.Add(-5 * time.Second).UnixMicro())}
					require.NoError(t, s.client.ZAdd(t.Context(), s.beats()[0], found).Err())
				}
			}
			a := s.explain("")
			t.Log(a.Text, a.More)
			require.Regexp(t, c.says, a.Text)
			require.Equal(t, c.lost, a.Held)
			sentence(t, a.Text)
			lines, err := s.reader.Lines(t.Context(), 1, nil)
			require.NoError(t, err)
			if c.later == "paused" {
				require.Contains(t, a.More, "It is paused until ")
			} else {
				require.Equal(t, c.lost, lines[0].Unclaimed)
			}
		})
	}
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
