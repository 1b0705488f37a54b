package scheduler_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/asynqtest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/scheduler"
	"github.com/fleetpace/fleetpace/worker"
)

var quiet = slog.New(slog.DiscardHandler)

// process starts one of a fleet, with limits of its own.
func process(t *testing.T, f *asynqtest.Fleet, turns reserve.Turns, handler asynq.HandlerFunc) {
	w, err := worker.New(turns, worker.Config{Logger: quiet})
	require.NoError(t, err)
	f.Serve(w, asynqtest.Config(20), handler)
}

// Tasks that are booked come into their workers once, shortly before their turns, in order,
// and the limit is used to the full.
func TestScheduledTasksComeOnce(t *testing.T) {
	for name, limit := range map[string]reserve.Limit{
		"fast": reserve.PerSecond(50), "slow": reserve.PerSecond(2).Burst(3), "rolling": reserve.Rolling(50, 10*time.Second),
		"warming up": reserve.PerSecond(5).WarmUp(2 * time.Second), "quota": reserve.Quota(100, reserve.CalendarMinute).Margin(10 * time.Millisecond),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const tasks = 150
				f := asynqtest.Open(t)
				f.Allow("api", asynqtest.Strict(limit))
				config := reserve.Config{Name: "api", Limit: limit}
				for range 2 {
					process(t, f, f.Limiter(f.Client(), config), func(_ context.Context, task *asynq.Task) error {
						f.Call("api", 1)
						f.Ran(string(task.Payload()), 0)
						return nil
					})
				}
				client := f.Client()
				s, err := scheduler.New(asynq.NewClientFromRedisClient(client), f.Limiter(client, config), scheduler.Config{})
				require.NoError(t, err)
				var items []scheduler.Item
				for i := range tasks {
					items = append(items, scheduler.Item{Task: task(i), Options: []asynq.Option{asynq.Queue(asynqtest.Queue)}})
				}
				forecasts, err := s.EnqueueAll(t.Context(), items)
				require.NoError(t, err)
				took := f.Await(tasks, time.Hour)
				mean, worst := asynqtest.Displaced(f.Calls())
				entries := float64(f.Entries()) / tasks
				off := f.Calls()[tasks-1].At - forecasts[tasks-1].At.Sub(f.Start)
				t.Logf("MEASURE took %v, entries %.2f, out of place %.1f, at worst %d; the last one %v later than was forecast",
					took, entries, mean, worst, off)
				require.LessOrEqual(t, entries, 1.05)
				require.InDelta(t, 0, off, float64(2*time.Second))
				time.Sleep(time.Second)
				require.Zero(t, f.Info().Size)
				require.Zero(t, f.Info().FailedTotal)
			})
		})
	}
}

// Four types of tasks, each of a tenant of 2/s under an account of 10/s, have a minute of
// backlog, half a minute of Timeout, and no second attempt. Those that are booked all run.
// Those that are not, and whose turns come too late, fail as they start, and say so.
func TestOneAttemptAndABacklog(t *testing.T) {
	for _, booked := range []bool{true, false} {
		t.Run(fmt.Sprintf("booked=%v", booked), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const types, each = 4, 120
				f := asynqtest.Open(t)
				f.Allow("account", asynqtest.Bucket(10, 1))
				for i := range types {
					f.Allow("type-"+strconv.Itoa(i), asynqtest.Bucket(2, 1))
				}
				limits := func() (*reserve.Joint, func(context.Context, *asynq.Task) (scheduler.Need, error)) {
					client := f.Client()
					tenants := f.Limiter(client, reserve.Config{Name: "tenants", Group: "shop", Limit: reserve.PerSecond(2)})
					account := f.Limiter(client, reserve.Config{Name: "account", Group: "shop", Limit: reserve.PerSecond(10)})
					both, err := reserve.All(tenants, account)
					require.NoError(t, err)
					return both, func(_ context.Context, task *asynq.Task) (scheduler.Need, error) {
						return scheduler.Need{Key: task.Type()}, nil
					}
				}
				for range 2 {
					both, need := limits()
					w, err := worker.New(both, worker.Config{Logger: quiet, Need: need})
					require.NoError(t, err)
					f.Serve(w, asynqtest.Config(20), func(_ context.Context, task *asynq.Task) error {
						f.Call("account", 1)
						f.Call(task.Type(), 1)
						f.Ran(string(task.Payload()), 0)
						return nil
					})
				}
				client := asynq.NewClientFromRedisClient(f.Client())
				var items []scheduler.Item
				for i := range types * each {
					items = append(items, scheduler.Item{
						Task:    asynq.NewTask("type-"+strconv.Itoa(i%types), fmt.Appendf(nil, "%d", i)),
						Options: []asynq.Option{asynq.Queue(asynqtest.Queue), asynq.MaxRetry(0), asynq.Timeout(30 * time.Second)},
					})
				}
				if booked {
					both, need := limits()
					s, err := scheduler.New(client, both, scheduler.Config{Need: need})
					require.NoError(t, err)
					_, err = s.EnqueueAll(t.Context(), items)
					require.NoError(t, err)
					took := f.Await(len(items), 2*time.Minute)
					time.Sleep(time.Second)
					t.Logf("MEASURE all in %v, entries %.2f", took, float64(f.Entries())/float64(len(items)))
					require.Zero(t, f.Info().Size)
					require.Zero(t, f.Info().FailedTotal)
					require.Less(t, took, 62*time.Second)
					return
				}
				for _, item := range items {
					_, err := client.Enqueue(item.Task, item.Options...)
					require.NoError(t, err)
				}
				time.Sleep(time.Minute)
				info := f.Info()
				require.Equal(t, len(items), len(f.Calls())+info.Archived, "%+v", info)
				archived, err := f.Inspector.ListArchivedTasks(asynqtest.Queue, asynq.PageSize(len(items)))
				require.NoError(t, err)
				for _, task := range archived {
					require.Contains(t, task.LastErr, "raise its Timeout or Deadline, or its MaxRetry: in its last attempt a task cannot be rescheduled")
				}
				t.Logf("MEASURE %d ran, %d failed", len(f.Calls()), info.Archived)
				require.GreaterOrEqual(t, len(f.Calls()), types*2*28, "all that could be in half a minute")
				require.True(t, strings.HasPrefix(archived[0].LastErr, "worker: the task cannot run in time: its turn is in "))
			})
		})
	}
}
