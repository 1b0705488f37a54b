package fleet_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/internal/frozen"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

func TestMain(m *testing.M) {
	redistest.SideBySide(12)
	goleak.VerifyTestMain(m)
}

// scene is a fleet on a Redis, and who looks at it.
type scene struct {
	*testing.T
	server *redistest.Server
	client *redis.Client
	prefix string
	reader *fleet.Reader

	informs // tests let processes be silent for longer than the server runs
	clock   *halted
}

func newScene(t *testing.T, server *redistest.Server) *scene {
	s := &scene{T: t, server: server, client: server.Client(t), prefix: redistest.Prefix(t), informs: informs{"uptime_in_seconds": "3600"}, clock: &halted{}}
	s.client.AddHook(s.informs)
	s.client.AddHook(s.clock)
	s.reader = fleet.New(s.client, s.prefix)
	t.Cleanup(s.reader.Close)
	return s
}

var api = fleet.Name{Name: "api"}

// process is a limiter of a process of its own: it has a client of its own.
func (s *scene) process(config reserve.Config) (*reserve.Limiter, *redis.Client) {
	s.Helper()
	client := s.server.Client(s)
	return s.limiter(client, config), client
}

func (s *scene) limiter(client *redis.Client, config reserve.Config) *reserve.Limiter {
	s.Helper()
	if config.Name == "" {
		config.Name = "api"
	}
	config.Prefix = s.prefix
	l, err := reserve.New(client, config)
	require.NoError(s, err)
	s.Cleanup(func() { _ = l.Close() })
	return l
}

// paced is a process with a limit, which has used it once, and has told that none of its calls waits.
func (s *scene) paced(limit reserve.Limit) *reserve.Limiter {
	s.Helper()
	l, _ := s.process(reserve.Config{Limit: limit})
	require.NoError(s, l.Wait(s.Context()))
	s.until("the processes tell of no call that waits", func() bool {
		survey, err := s.reader.Survey(s.Context(), api)
		require.NoError(s, err)
		return survey.Alive() > 0 && survey.Waiting() == 0
	})
	return l
}

// waits lets so many calls wait until the test ends.
func (s *scene) waits(calls int, wait func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	var waiting sync.WaitGroup
	for range calls {
		waiting.Go(func() { _ = wait(ctx) })
	}
	s.Cleanup(func() {
		cancel()
		waiting.Wait()
	})
}

// until waits for what the heartbeats bring.
func (s *scene) until(what string, holds func() bool) {
	s.Helper()
	require.Eventually(s, holds, 20*time.Second, 20*time.Millisecond, what)
}

func (s *scene) explain(which string) *fleet.Answer {
	s.Helper()
	a, err := s.reader.Explain(s.Context(), api, which)
	require.NoError(s, err)
	return a
}

// told waits until so many calls wait in Redis, and the processes have told of as many.
func (s *scene) told(calls int) {
	s.Helper()
	s.until("the calls wait", func() bool {
		look, err := s.reader.Look(s.Context(), api, 1)
		require.NoError(s, err)
		return look.Waiting() == calls && len(look.Rows) > 0 && look.Rows[0].Waiting == int64(calls)
	})
}

// known waits until the processes have told that they live.
func (s *scene) known(processes int) {
	s.Helper()
	s.until("the processes are known", func() bool {
		survey, err := s.reader.Survey(s.Context(), api)
		require.NoError(s, err)
		return survey.Alive() == processes
	})
}

// quiet waits until the processes have told that they live, and that none of their calls waits.
func (s *scene) quiet(processes int) {
	s.Helper()
	s.until("the processes tell of no call that waits", func() bool {
		survey, err := s.reader.Survey(s.Context(), api)
		require.NoError(s, err)
		return survey.Alive() == processes && survey.Waiting() == 0
	})
}

// keys are those of a limit.
func (s *scene) keys(kind, key string) []string { return lua.Keys(s.prefix, "", "api", kind, key) }

func (s *scene) beats() []string { return lua.BeatKeys(s.prefix, "", "api") }

// silent lets all processes be silent for so long, or found dead so long ago, until they are looked at. Their clients must be
// closed.
func (s *scene) silent(ago time.Duration, dead bool) {
	s.Helper()
	now, err := s.client.Time(s.Context()).Result()
	require.NoError(s, err)
	score := float64(now.Add(-ago).UnixMicro())
	if dead {
		score = -score
	}
	processes, err := s.client.ZRange(s.Context(), s.beats()[0], 0, -1).Result()
	require.NoError(s, err)
	for _, p := range processes {
		require.NoError(s, s.client.ZAdd(s.Context(), s.beats()[0], redis.Z{Score: score, Member: p}).Err())
	}
	s.clock.at = now
}

// halted lets the clock of Redis stand still for who looks at the processes, and zero lets it go on. What an answer says of
// times does then not depend on how long the test takes.
type halted struct{ at time.Time }

func (*halted) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*halted) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h *halted) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if clock, is := cmd.(*redis.TimeCmd); is && !h.at.IsZero() {
				clock.SetVal(h.at)
			}
		}
		return err
	}
}

// v02 sends a heartbeat of a process of v0.2.
func (s *scene) v02(lives bool) {
	s.Helper()
	p := frozen.V02{Client: s.client, Prefix: s.prefix, Name: "api", Process: "old", Interval: 10 * time.Millisecond, Burst: 1}
	require.NoError(s, p.Beat(s.Context(), !lives))
}

// later sends a heartbeat of a process that speaks another protocol.
func (s *scene) later(process string, protocol int) {
	s.Helper()
	require.NoError(s, lua.Beat.Run(s.Context(), s.client, s.beats()[:2], "", process, 3_000_000, "", 1, protocol).Err())
}

// unfit begins processes whose limit is of another kind than the one in force.
func (s *scene) unfit(processes int) {
	s.Helper()
	began := time.Now()
	for range processes {
		l, _ := s.process(reserve.Config{Limit: reserve.Rolling(5, time.Second), Logger: slog.New(slog.DiscardHandler)})
		require.ErrorIs(s, l.Wait(s.Context()), reserve.ErrInvalid)
	}
	survey, err := s.reader.Survey(s.Context(), api)
	require.NoError(s, err)
	require.Len(s, survey.Unfit(), processes)
	require.Equal(s, 1, survey.Alive(), "but for those whose calls fail")
	require.Empty(s, survey.Differ)
	for _, p := range survey.Unfit() {
		require.Equal(s, "5/s rolling", p.Limit)
		require.WithinRange(s, p.Fails, began.Add(-time.Second), time.Now().Add(time.Second))
	}
	lines, err := s.reader.Lines(s.Context(), 1, nil)
	require.NoError(s, err)
	require.Equal(s, processes, lines[0].Failing)
	require.Contains(s, lines[0].Error, "which is of another kind")
}

// slots are held by a tenant.
func (s *scene) slots(slots, held int) (*reserve.Limiter, *redis.Client) {
	s.Helper()
	l, client := s.process(reserve.Config{Limit: reserve.Concurrent(slots)})
	s.waits(held, func(ctx context.Context) error {
		r, err := l.Flow("tenant-1").Acquire(ctx, 1)
		if err == nil {
			defer r.Release()
			<-ctx.Done()
		}
		return err
	})
	s.until("the slots are held", func() bool {
		used, _ := s.client.ZCard(s.Context(), s.keys("s", "")[2]).Result()
		return used == int64(held)
	})
	return l, client
}

func (s *scene) waitsForSlot(l *reserve.Limiter) {
	s.Helper()
	s.waits(1, func(ctx context.Context) error {
		r, err := l.Acquire(ctx, 1)
		if err == nil {
			r.Release()
		}
		return err
	})
	s.told(1)
}

// abandoned is what a process leaves behind whose connections end while calls wait.
func (s *scene) abandoned(calls int) {
	s.Helper()
	l, client := s.process(reserve.Config{Limit: reserve.PerMinute(1)})
	require.NoError(s, l.Wait(s.Context()))
	s.waits(calls, l.Wait)
	s.told(calls)
	require.NoError(s, client.Close())
}

// used uses a limit up, and lets a call wait.
func (s *scene) used(limit reserve.Limit) {
	s.Helper()
	l := s.paced(limit)
	require.NoError(s, l.Wait(s.Context()))
	s.waits(1, l.Wait)
	s.told(1)
}

// booked books calls at one each hour.
func (s *scene) booked(ids ...string) {
	s.Helper()
	l := s.paced(reserve.PerHour(1))
	s.known(1)
	for i, due := range s.books(l, ids...) {
		require.InDelta(s, float64(i+1), time.Until(due).Hours(), 0.05)
	}
}

// books books calls, and returns when they are due.
func (s *scene) books(l *reserve.Limiter, ids ...string) (due []time.Time) {
	s.Helper()
	j, err := reserve.All(l)
	require.NoError(s, err)
	var calls []reserve.Call
	for _, id := range ids {
		calls = append(calls, reserve.Call{ID: id})
	}
	for _, joined := range j.Book(s.Context(), calls) {
		require.NoError(s, joined.Err)
		due = append(due, joined.Due)
	}
	return due
}

// bookedWithoutWorkers books two calls while the limit is paused. Then the pause is over, and the
// process has ended.
func (s *scene) bookedWithoutWorkers() {
	s.Helper()
	l, client := s.process(reserve.Config{Limit: reserve.PerSecond(100).Burst(10)})
	require.NoError(s, l.Wait(s.Context()))
	require.NoError(s, l.Pause(s.Context(), time.Hour, ""))
	s.books(l, "task-1", "task-2")
	require.NoError(s, l.Resume(s.Context()))
	s.until("there are permits", func() bool {
		look, err := s.reader.Look(s.Context(), api, 1, "")
		return err == nil && len(look.Rows) > 0 && look.Rows[0].State.Wait == 0 && look.Alive() == 1 && look.Waiting() == 0
	})
	require.NoError(s, client.Close())
}

// forgotten is what Redis knows of processes that have ended; of those that have ended long ago it
// has no limit, either.
func (s *scene) forgotten(long bool) {
	s.Helper()
	keys := s.beats()
	require.NoError(s, s.client.Del(s.Context(), keys[0], keys[3]).Err())
	if long {
		require.NoError(s, s.client.Del(s.Context(), keys[2]).Err())
	}
}

// sentence is what an answer is to be: one line, which ends.
func sentence(t *testing.T, text string) {
	t.Helper()
	require.NotContains(t, text, "\n")
	require.True(t, strings.HasSuffix(text, "."), text)
	require.NotContains(t, text, "..")
	require.NotContains(t, text, "%!", "a format")
	require.LessOrEqual(t, len(strings.Fields(text)), 40)
}
