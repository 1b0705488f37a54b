package worker_test

import (
	"context"
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/asynqtest"
	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/worker"
)

var quiet = slog.New(slog.DiscardHandler)

// fleet is one in simulated time, whose tasks have numbers for payloads.
type fleet struct {
	*asynqtest.Fleet
	tasks  *asynq.Client
	limits *asynqtest.Fleet // whose Redis has the limits, where it is another one
}

func simulate(t *testing.T, do func(t *testing.T, f *fleet)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := asynqtest.Open(t)
		do(t, &fleet{Fleet: f, tasks: asynq.NewClientFromRedisClient(f.Client())})
	})
}

// enqueue adds the tasks from..to-1.
func (f *fleet) enqueue(from, to int, options ...asynq.Option) {
	f.Helper()
	for i := from; i < to; i++ {
		_, err := f.tasks.Enqueue(asynq.NewTask("call", []byte(strconv.Itoa(i))), append(options, asynq.Queue(asynqtest.Queue))...)
		require.NoError(f, err)
	}
}

// serve starts a process whose tasks call APIs, one permit each.
func (f *fleet) serve(turns reserve.Turns, config worker.Config, handlers int, apis ...string) (w *worker.Worker, stop func()) {
	f.Helper()
	config.Logger = quiet
	w, err := worker.New(turns, config)
	require.NoError(f, err)
	return w, f.Serve(w, asynqtest.Config(handlers), func(_ context.Context, task *asynq.Task) error {
		for _, api := range apis {
			f.Call(api, 1)
		}
		f.Ran(string(task.Payload()), 0)
		return nil
	})
}

func (f *fleet) limiter(limit reserve.Limit) *reserve.Limiter {
	f.Helper()
	return f.Limiter(f.Client(), reserve.Config{Name: "api", Limit: limit})
}

// unharmed expects that no task has failed, and that none is left.
func (f *fleet) unharmed() {
	f.Helper()
	time.Sleep(time.Second)
	info := f.Info()
	require.Zero(f, info.Size, "%+v", info)
	require.Zero(f, info.FailedTotal)
}

// A fleet finds a backlog. Each task comes into a worker twice at most, in the order of the
// queue, and the limit is used to the full.
func TestABacklog(t *testing.T) {
	for name, backlog := range map[string]struct{ rate, tasks, processes, room int }{
		"that fits into the room": {50, 300, 2, 0}, "slow": {2, 60, 2, 40}, "one process": {20, 250, 1, 200},
		"much larger than the room": {20, 250, 2, 50},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, f *fleet) {
				f.Allow("api", asynqtest.Bucket(float64(backlog.rate), 1))
				f.enqueue(0, backlog.tasks)
				for range backlog.processes {
					l := f.limiter(reserve.PerSecond(float64(backlog.rate)))
					for range 3 { // then it knows how far away Redis is, and does not measure that as tasks come
						_, err := l.State(t.Context())
						require.NoError(t, err)
					}
					f.serve(l, worker.Config{WaitingRoom: backlog.room}, 10, "api")
				}
				took := f.Await(backlog.tasks, time.Hour)
				f.unharmed()
				mean, worst := asynqtest.Displaced(f.Calls())
				used := float64(backlog.tasks-1) / took.Seconds() / float64(backlog.rate)
				entries := float64(f.Entries()) / float64(backlog.tasks)
				t.Logf("MEASURE used %.3f, entries %.2f, out of place %.1f, at worst %d", used, entries, mean, worst)
				require.GreaterOrEqual(t, used, 0.99)
				require.LessOrEqual(t, entries, 2.0)
				require.LessOrEqual(t, worst, max(5, backlog.rate), "a second")
			})
		})
	}
}

// judged is a limit, and the rule of an API that keeps it.
type judged struct {
	limit reserve.Limit
	rule  provider.Rule
}

// kinds are limits of every kind, of about 5/s.
var kinds = map[string][]judged{
	"paced":      {{reserve.PerSecond(5).Burst(3), asynqtest.Bucket(5, 3)}},
	"warming up": {{reserve.PerSecond(5).WarmUp(2 * time.Second), asynqtest.Bucket(5, 1)}},
	"quota":      {{reserve.Quota(80, reserve.CalendarMinute).Margin(10 * time.Millisecond), asynqtest.Window(80, time.Minute)}},
	"rolling":    {{reserve.Rolling(50, 10*time.Second), asynqtest.Rolling(50, 10*time.Second)}},
	"several": {
		{reserve.PerSecond(5).Burst(3), asynqtest.Bucket(5, 3)},
		{reserve.Rolling(60, 10*time.Second), asynqtest.Rolling(60, 10*time.Second)},
		{reserve.Quota(2000, reserve.CalendarHour), asynqtest.Window(2000, time.Hour)},
	},
}

// turns makes what a process needs for limits, and the APIs.
func (f *fleet) turns(limits []judged) (turns reserve.Turns, apis []string) {
	f.Helper()
	client := f.Client()
	var all []*reserve.Limiter
	for i, l := range limits {
		api := "api-" + strconv.Itoa(i)
		f.Allow(api, l.rule)
		all, apis = append(all, f.Limiter(client, reserve.Config{Name: api, Group: "shop", Limit: l.limit})), append(apis, api)
	}
	if len(all) == 1 {
		return all[0], apis
	}
	joint, err := reserve.All(all...)
	require.NoError(f, err)
	return joint, apis
}

// Tasks wait for turns of every kind of limit, in order, and come into a worker twice at
// most. A pause holds them all, and those that are awake go on when it ends early.
func TestKindsOfLimits(t *testing.T) {
	for name, limits := range kinds {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, f *fleet) {
				const tasks = 120
				turns, apis := f.turns(limits)
				other, _ := f.turns(limits)
				f.enqueue(0, tasks)
				f.serve(turns, worker.Config{WaitingRoom: 100}, 10, apis...)
				f.serve(other, worker.Config{WaitingRoom: 100}, 10, apis...)

				f.Until(50, time.Minute)
				require.NoError(t, turns.Pause(t.Context(), 5*time.Second, "maintenance"))
				f.rests(5*time.Second - 10*time.Millisecond)
				f.Until(100, 3*time.Minute)
				require.NoError(t, turns.Pause(t.Context(), 30*time.Second, "maintenance"))
				f.rests(500 * time.Millisecond)
				require.NoError(t, other.Resume(t.Context()))
				f.Await(tasks, 5*time.Minute)
				f.unharmed()
				_, worst := asynqtest.Displaced(f.Calls())
				entries := float64(f.Entries()) / tasks
				t.Logf("MEASURE took %v, entries %.2f, at worst %d out of place", f.Calls()[tasks-1].At, entries, worst)
				require.LessOrEqual(t, entries, 3.0, "a pause makes all that are put back come too early once")
			})
		})
	}
}

// Another limit is kept from the moment on at which it is set, and all tasks run.
func TestAnotherLimit(t *testing.T) {
	slower := map[string]judged{
		"paced":      {reserve.PerSecond(2).Burst(2), asynqtest.Bucket(2, 2)},
		"warming up": {reserve.PerSecond(2).WarmUp(2 * time.Second), asynqtest.Bucket(2, 1)},
		"quota":      {reserve.Quota(30, reserve.CalendarMinute).Margin(10 * time.Millisecond), asynqtest.Window(30, time.Minute)},
		"rolling":    {reserve.Rolling(20, 10*time.Second), asynqtest.Rolling(20, 10*time.Second)},
	}
	slower["several"] = slower["paced"]
	for name, limits := range kinds {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, f *fleet) {
				const tasks = 80
				turns, apis := f.turns(limits)
				other, _ := f.turns(limits)
				f.enqueue(0, tasks)
				f.serve(turns, worker.Config{WaitingRoom: 100}, 10, apis...)
				f.serve(other, worker.Config{WaitingRoom: 100}, 10, apis...)
				f.Until(40, time.Minute)
				require.NoError(t, other.Limits()[0].SetLimit(t.Context(), slower[name].limit, 0))
				time.Sleep(5 * time.Millisecond) // who has just been let through is on its way
				f.Allow("api-0", slower[name].rule)
				f.Await(tasks, 5*time.Minute)
				f.unharmed()
				t.Logf("MEASURE took %v, entries %.2f", f.Calls()[tasks-1].At, float64(f.Entries())/tasks)
			})
		})
	}
}

// Costs that are settled, by the configuration or by handlers: what tasks did not use is for
// those behind them.
func TestSettledCosts(t *testing.T) {
	t.Run("Config.Used", func(t *testing.T) { settled(t, false) })
	t.Run("Settle", func(t *testing.T) { settled(t, true) })
}

func settled(t *testing.T, byHandler bool) {
	simulate(t, func(t *testing.T, f *fleet) {
		const tasks, estimate, used = 20, 600, 200
		f.Allow("requests", asynqtest.Bucket(57.0/60, 10))
		f.Allow("tokens", asynqtest.Bucket(7500.0/60, 2500))
		client := f.Client()
		requests := f.Limiter(client, reserve.Config{Name: "requests", Group: "llm", Limit: reserve.PerMinute(57).Burst(10)})
		tokens := f.Limiter(client, reserve.Config{Name: "tokens", Group: "llm", Limit: reserve.PerMinute(7500).Burst(2500), Settles: true})
		both, err := reserve.All(requests, tokens)
		require.NoError(t, err)
		config := worker.Config{
			Logger: quiet,
			Need: func(context.Context, *asynq.Task) (worker.Need, error) {
				return worker.Need{Costs: []int{1, estimate}}, nil
			},
		}
		if !byHandler {
			config.Used = func(context.Context, *asynq.Task, error) []int { return []int{-1, used} }
		}
		w, err := worker.New(both, config)
		require.NoError(t, err)
		f.enqueue(0, tasks)
		f.Serve(w, asynqtest.Config(10), func(ctx context.Context, task *asynq.Task) error {
			if byHandler {
				assert.NoError(t, worker.Settle(ctx, estimate, estimate), "the last call counts")
				assert.NoError(t, worker.Settle(ctx, -1, used))
				assert.ErrorContains(t, worker.Settle(ctx, used), "one number for each of")
			}
			f.Call("requests", 1)
			f.Call("tokens", used)
			f.Ran(string(task.Payload()), 0)
			return nil
		})
		took := f.Await(tasks, time.Minute)
		f.unharmed()
		t.Logf("MEASURE %d tasks took %v", tasks, took)
		// The last one has its turn when 600 of 7,500/min are there after 19 times 200 of 2,500
		// in stock: after 15.2 s. One refund may come too late to be given back.
		require.LessOrEqual(t, took, 15200*time.Millisecond+(estimate-used)*time.Minute/7500+100*time.Millisecond)
	})
}

// Costs can only be settled of limits that are made for it.
func TestUsedWantsLimitsThatSettle(t *testing.T) {
	used := func(context.Context, *asynq.Task, error) []int { return nil }
	_, err := worker.New(unasked(t, reserve.PerSecond(1)), worker.Config{Used: used})
	require.ErrorIs(t, err, worker.ErrInvalid)
	require.ErrorContains(t, err, `Config.Used: "api" cannot be settled: set reserve.Config.Settles`)
}

func TestSettleWantsATask(t *testing.T) {
	require.ErrorIs(t, worker.Settle(t.Context(), 1), worker.ErrInvalid)
}

// rests lets a time pass in which nothing runs.
func (f *fleet) rests(d time.Duration) {
	f.Helper()
	time.Sleep(5 * time.Millisecond) // who has just been let through is on its way
	before := len(f.Calls())
	time.Sleep(d - 5*time.Millisecond)
	require.Len(f, f.Calls(), before)
}

func TestToldWantsATask(t *testing.T) {
	require.ErrorIs(t, worker.Told(t.Context(), 1), worker.ErrInvalid)
}

// After a stop whose end nobody knows, one task in five minutes probes it. The first that is done ends the stop.
func TestTaskEndsAStop(t *testing.T) {
	simulate(t, func(t *testing.T, f *fleet) {
		limiter := f.limiter(reserve.PerSecond(10))
		f.serve(limiter, worker.Config{}, 5)
		require.NoError(t, limiter.Stop(t.Context(), time.Time{}, "credits"))
		f.enqueue(0, 10)
		f.Until(10, 30*time.Minute)
		f.unharmed()
	})
}
