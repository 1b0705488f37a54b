package fleet_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// hostile are names that somebody could give.
var hostile = []string{"<script>alert(1)</script>", `a"; --`, "two  words ", "a/b", "naïve\x00\xff", "a:b", "%d %s", "*"}

// Each name that was used is found, alone and in its group; where several groups have one, it says so.
func TestNames(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		s := newScene(t, server)
		names, err := s.reader.Names(t.Context())
		require.NoError(t, err)
		require.Empty(t, names)
		_, err = s.reader.Find(t.Context(), "api")
		require.ErrorIs(t, err, fleet.ErrUnknown)
		require.ErrorContains(t, err, "check --redis")

		var want []fleet.Name
		for _, name := range append(hostile, "api", "api-2") {
			want = append(want, fleet.Name{Name: name})
		}
		want = append(want, fleet.Name{Name: "api-2", Group: "g"}, fleet.Name{Name: "api-2", Group: "h x"}, fleet.Name{Name: "alone", Group: `"g"; <b>`})
		for _, n := range want {
			l, _ := s.process(reserve.Config{Name: n.Name, Group: n.Group, Limit: reserve.PerSecond(100)})
			require.NoError(t, l.Wait(t.Context()))
		}
		require.NoError(t, s.client.HSet(t.Context(), lua.Index(s.prefix), "no field of ours", 1, "{}", 1, "{a", 1).Err())
		s.until("all are noted", func() bool {
			names, err = s.reader.Names(t.Context())
			require.NoError(t, err)
			return len(names) == len(want)
		})
		require.ElementsMatch(t, want, names)
		require.True(t, slices.IsSortedFunc(names, func(x, y fleet.Name) int { return strings.Compare(x.Name, y.Name) }))

		for _, n := range want {
			found, err := s.reader.Find(t.Context(), n.String())
			require.NoError(t, err)
			require.Equal(t, n, found)
			s.until("its process has told of its call", func() bool {
				look, err := s.reader.Look(t.Context(), n, 1)
				require.NoError(t, err)
				require.Equal(t, "100/s", look.Limit, n)
				return len(look.Keys) == 1 && look.Keys[0].Used == 1
			})
		}
		found, err := s.reader.Find(t.Context(), "alone")
		require.NoError(t, err)
		require.Equal(t, `"g"; <b>`, found.Group)
		_, err = s.reader.Find(t.Context(), "api-3")
		require.ErrorIs(t, err, fleet.ErrUnknown)
		require.ErrorContains(t, err, "and 3 more")
	})
}

// A name without a group is meant where no group is said; of several groups one is to be said.
func TestFindInGroups(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		s := newScene(t, server)
		note := func(group, name string) {
			require.NoError(t, s.client.HSet(t.Context(), lua.Index(s.prefix), lua.Indexed(group, name), 1).Err())
		}
		note("g", "api")
		note("h", "api")
		_, err := s.reader.Find(t.Context(), "api")
		require.ErrorIs(t, err, fleet.ErrUnknown)
		require.ErrorContains(t, err, "use one of g/api, h/api")
		note("", "api")
		found, err := s.reader.Find(t.Context(), "api")
		require.NoError(t, err)
		require.Equal(t, fleet.Name{Name: "api"}, found)
		found, err = s.reader.Find(t.Context(), "h/api")
		require.NoError(t, err)
		require.Equal(t, fleet.Name{Name: "api", Group: "h"}, found)
		for text, want := range map[string]string{"h/api": "", "h/api/tenant/1": "tenant/1", "api/x": "x"} {
			found, key, err := s.reader.FindKey(t.Context(), text)
			require.NoError(t, err, text)
			require.Equal(t, want, key)
			require.Equal(t, strings.HasPrefix(text, "h"), found.Group == "h", text)
		}
		_, _, err = s.reader.FindKey(t.Context(), "nope/x")
		require.ErrorIs(t, err, fleet.ErrUnknown)
	})
}

// What two processes tell adds up: keys, flows, who waits longest.
func TestSurvey(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		s := newScene(t, server)
		first, gone := s.process(reserve.Config{Limit: reserve.PerMinute(1)})
		second, _ := s.process(reserve.Config{Limit: reserve.PerMinute(1), Outage: reserve.Outage{Policy: reserve.PolicyWait}})
		for _, key := range []string{"a", "b"} {
			require.NoError(t, first.For(key).Wait(t.Context()))
		}
		require.NoError(t, second.For("c").Wait(t.Context()))
		s.waits(3, first.For("a").Flow("red").Wait)
		s.waits(2, second.For("a").Flow("blue").Wait)
		s.waits(1, second.For("b").Flow("red").Wait)
		began := time.Now()
		var survey *fleet.Survey
		s.until("the processes have told", func() bool {
			var err error
			survey, err = s.reader.Survey(t.Context(), api)
			require.NoError(t, err)
			return survey.Alive() == 2 && survey.Waiting() == 6 && survey.Keys[0].Oldest > 1
		})
		require.Less(t, survey.Keys[0].Oldest, time.Since(began).Seconds()+1)
		keys := map[string][2]int{}
		for _, q := range survey.Keys {
			keys[q.Key] = [2]int{q.Calls, int(q.Used)}
			require.Empty(t, q.HeldBy)
		}
		require.Equal(t, map[string][2]int{"a": {5, 1}, "b": {1, 1}, "c": {0, 1}}, keys)
		require.Equal(t, "a", survey.Keys[0].Key, "the most calls come first")
		require.Equal(t, []string{"red", "blue"}, []string{survey.Flows[0].Key, survey.Flows[1].Key})
		require.Equal(t, []int{4, 2}, []int{survey.Flows[0].Calls, survey.Flows[1].Calls})
		require.Equal(t, "1/minute", survey.Limit)
		require.Empty(t, survey.Differ)
		policies := []string{}
		for _, p := range survey.Processes {
			policies = append(policies, p.Report.Policy)
			require.Equal(t, "1/minute", p.Limit)
			require.Positive(t, p.Report.PID)
			require.Less(t, p.Silent, 3.0)
		}
		require.ElementsMatch(t, []string{"local", "wait"}, policies)

		require.NoError(t, gone.Close())
		s.dies("local")
		s.known(1)
		survey, err := s.reader.Survey(t.Context(), api)
		require.NoError(t, err)
		require.Len(t, survey.Processes, 2, "the dead stay for ten minutes")
		require.Equal(t, 3, survey.Waiting(), "their calls do not")
		for _, p := range survey.Processes {
			require.Equal(t, p.Report.Policy == "wait", p.Alive)
		}
		for _, q := range survey.Keys {
			require.EqualValues(t, 1, q.Used, "what they have used does: %s", q.Key)
		}
	})
}

// dies lets the process with a policy count as dead.
func (s *scene) dies(policy string) {
	s.Helper()
	survey, err := s.reader.Survey(s.Context(), api)
	require.NoError(s, err)
	i := slices.IndexFunc(survey.Processes, func(p fleet.Process) bool { return p.Report.Policy == policy })
	score := -float64(time.Now().UnixMicro())
	require.NoError(s, s.client.ZAdd(s.Context(), s.beats()[0], redis.Z{Score: score, Member: survey.Processes[i].ID}).Err())
}

// scripts counts the script calls of a client.
type scripts struct{ atomic.Int64 }

func (*scripts) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*scripts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *scripts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") {
			h.Add(1)
		}
		return next(ctx, cmd)
	}
}

// Of 10,000 keys only those are read that are wanted.
func TestLookReadsWhatIsWanted(t *testing.T) {
	t.Parallel()
	s := newScene(t, redistest.New(t))
	l, _ := s.process(reserve.Config{Limit: reserve.PerSecond(1000)})
	const all = 10_000
	for i := range all {
		require.NoError(t, l.For(fmt.Sprint("tenant-", i)).Wait(t.Context()))
	}
	s.until("a report tells of as many as it may", func() bool {
		survey, err := s.reader.Survey(t.Context(), api)
		require.NoError(t, err)
		return len(survey.Keys) == 50
	})
	_, err := s.reader.Look(t.Context(), api, 1)
	require.NoError(t, err, "the script is loaded")
	var calls scripts
	s.client.AddHook(&calls)
	for most, wanted := range map[int][]string{0: nil, 1: nil, 20: nil, 2: {"tenant-3", "tenant-4"}} {
		calls.Store(0)
		look, err := s.reader.Look(t.Context(), api, most, wanted...)
		require.NoError(t, err)
		require.Len(t, look.Rows, most)
		require.EqualValues(t, most, calls.Load())
		for i := range wanted {
			require.Equal(t, wanted[i], look.Rows[i].Key)
		}
		for _, row := range look.Rows {
			require.NoError(t, row.Err)
			require.Equal(t, "1000/s", row.Limit)
		}
	}
}

// An observer reads all there is to read, without being refused anything but EVALSHA, and changes nothing.
func TestAnObserverReads(t *testing.T) {
	private := redistest.Private(t, redistest.PrivateOptions{})
	s := newScene(t, private.Server)
	args := []any{"acl", "setuser", "observer", "on", ">secret"}
	for _, rule := range strings.Split(lua.ACLObserver(s.prefix), " ") {
		args = append(args, rule)
	}
	require.NoError(t, s.client.Do(t.Context(), args...).Err())
	s.booked("task-1", "task-2")
	for name, limit := range map[string]reserve.Limit{
		"quota": reserve.Quota(5, reserve.CalendarDay), "rolling": reserve.Rolling(5, time.Hour), "warm": reserve.PerSecond(1).WarmUp(time.Second),
	} {
		l, _ := s.process(reserve.Config{Name: name, Limit: limit})
		require.NoError(t, l.Wait(t.Context()))
		s.waits(2, l.Flow("f").Wait)
	}
	slots, _ := s.process(reserve.Config{Name: "slots", Limit: reserve.Concurrent(1)})
	s.waits(2, func(ctx context.Context) error {
		r, err := slots.Acquire(ctx, 1)
		if err == nil {
			defer r.Release()
			<-ctx.Done()
		}
		return err
	})
	s.until("all are noted", func() bool { names, err := s.reader.Names(t.Context()); return err == nil && len(names) == 5 })
	require.NoError(t, s.client.ScriptFlush(t.Context()).Err())

	client := redis.NewClient(&redis.Options{Addr: private.Addr(), Username: "observer", Password: "secret"})
	defer func() { _ = client.Close() }()
	reader := fleet.New(client, s.prefix)
	defer reader.Close()
	names, err := reader.Names(t.Context())
	require.NoError(t, err)
	require.Len(t, names, 5)
	for _, n := range names {
		look, err := reader.Look(t.Context(), n, 3)
		require.NoError(t, err, n)
		require.NoError(t, look.Rows[0].Err, n)
		a, err := reader.Explain(t.Context(), n, "")
		require.NoError(t, err, n)
		require.NotEqual(t, fleet.WhyCorrupt, a.Reason, a.Text)
	}
	for text, why := range map[string]fleet.Why{"task-2": fleet.WhyQueue, "no task": fleet.WhyAvailable} {
		a, err := reader.Explain(t.Context(), api, text)
		require.NoError(t, err)
		require.Equal(t, why, a.Reason)
	}
	booked, err := reader.Booked(t.Context(), api, "p", "", "task-2")
	require.NoError(t, err)
	require.Equal(t, &fleet.Booked{ID: "task-2", Cost: 1, Counts: true, Before: 1, Permits: 1}, booked)
	log, err := s.client.Do(t.Context(), "acl", "log").Slice()
	require.NoError(t, err)
	for _, entry := range log {
		refused := fmt.Sprint(entry.(map[any]any)["object"])
		require.Contains(t, []string{"evalsha", "client|setinfo", "client|maint_notifications", "hello"}, refused)
	}

	limiter, err := reader.Limiter(api, reserve.PerMinute(1))
	require.NoError(t, err)
	require.ErrorIs(t, limiter.Pause(t.Context(), time.Minute, "no"), reserve.ErrDenied)
	look, err := reader.Look(t.Context(), api, 1)
	require.NoError(t, err, "that does not hinder who looks")
	require.False(t, look.Rows[0].Paused)
	err = reader.SetBy(t.Context(), api, "", "me")
	require.ErrorIs(t, err, reserve.ErrDenied)
	require.False(t, fleet.IsAway(err))
}

// A Redis that lost its data hears the names again with the next heartbeats.
func TestNamesComeBackAfterALoss(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		s := newScene(t, server)
		l, _ := s.process(reserve.Config{Limit: reserve.Every(time.Hour)})
		require.NoError(t, l.Wait(t.Context()))
		s.waits(1, l.Wait)
		noted := func() bool { names, err := s.reader.Names(t.Context()); return err == nil && len(names) == 1 }
		s.until("the name is noted", noted)
		// All at once: a heartbeat that comes in between would note the name, and lose that.
		require.NoError(t, s.client.Del(t.Context(), append(lua.BeatKeys(s.prefix, "", "api"), lua.Index(s.prefix))...).Err())
		s.until("it is noted again", noted)
	})
}
