package scheduler_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/scheduler"
)

const (
	// interval between the turns of most tests: half of it is more than any machine stops.
	interval   = time.Minute
	costHeader = "fleetpace-cost"
)

func TestTasksComeUpShortlyBeforeTheirTurns(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		lead := 700 * time.Millisecond
		d := open(t, server, reserve.Every(interval), scheduler.Config{Lead: lead})
		first := d.must()
		require.Equal(t, asynq.TaskStatePending, first.Info.State, "its turn has come: at once")
		for i := 2; i <= 4; i++ {
			f := d.must()
			require.Equal(t, i, place(f.At))
			require.WithinDuration(t, first.At.Add(time.Duration(i-1)*interval), f.At, interval/2)
			require.Equal(t, i, place(d.due(f.Info.ID)), "the ID is that which workers look for")

			require.Equal(t, asynq.TaskStateScheduled, f.Info.State)
			require.Equal(t, f.At.Add(-lead), f.Info.NextProcessAt)
			info, err := d.inspector.GetTaskInfo(d.queue, f.Info.ID)
			require.NoError(t, err)
			require.Equal(t, f.At.Add(-lead).Unix(), info.NextProcessAt.Unix())
		}
	})
}

func TestAnInvalidSchedulerIsRefused(t *testing.T) {
	d := open(t, redistest.Mini(t), reserve.Every(interval), scheduler.Config{})
	for field, make := range map[string]func() (*scheduler.Scheduler, error){
		"client": func() (*scheduler.Scheduler, error) { return scheduler.New(nil, d.limiter, scheduler.Config{}) },
		"turns":  func() (*scheduler.Scheduler, error) { return scheduler.New(d.client, nil, scheduler.Config{}) },
		"Config.Lead": func() (*scheduler.Scheduler, error) {
			return scheduler.New(d.client, d.limiter, scheduler.Config{Lead: -1})
		},
	} {
		_, err := make()
		require.ErrorIs(t, err, scheduler.ErrInvalid)
		require.ErrorContains(t, err, field)
	}
}

func TestItemsAreBookedInOrderAndInFewScripts(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		d := open(t, server, reserve.Every(interval), scheduler.Config{})
		keys := []string{"", "oslo", "lima"}
		var items []scheduler.Item
		for i := range 600 {
			headers := scheduler.Need{Key: keys[i%len(keys)]}.Headers()
			items = append(items, d.item(asynq.NewTaskWithHeaders("call", nil, headers)))
		}
		forecasts, err := d.EnqueueAll(t.Context(), items)
		require.NoError(t, err)
		for i, f := range forecasts {
			require.NoError(t, f.Err)
			if i >= len(keys) {
				require.WithinDuration(t, forecasts[i-len(keys)].At.Add(interval), f.At, interval/2)
			}
		}
		require.LessOrEqual(t, d.scripts.Load(), int64(len(items)/10+3), "one for ten tasks, and to load them, and to be known as alive")
	})
}

func TestABadItemTakesNothingAndStopsNobody(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		d := open(t, server, reserve.Every(interval).Burst(2), scheduler.Config{})
		costing := func(cost string) *asynq.Task {
			return asynq.NewTaskWithHeaders("call", nil, map[string]string{costHeader: cost})
		}
		soon := time.Now().Add(3 * interval)
		bad := []struct {
			item scheduler.Item
			is   error
			says string
		}{
			{scheduler.Item{}, scheduler.ErrInvalid, "task: must not be nil"},
			{d.item(asynq.NewTask(" ", nil)), scheduler.ErrInvalid, "type must not be empty"},
			{d.item(costing("3")), reserve.ErrExceedsBurst, `burst of "api", which is 2`},
			{d.item(costing("3"), asynq.ProcessIn(time.Hour)), reserve.ErrExceedsBurst, `burst of "api", which is 2`},
			{d.item(costing("many")), nil, costHeader},
			{d.item(task(0), asynq.Group("g")), scheduler.ErrInvalid, "Group"},
			{d.item(task(0), asynq.Timeout(time.Second)), scheduler.ErrInvalid, "Timeout(1s)"},
			{d.item(task(0), asynq.Unique(time.Millisecond)), scheduler.ErrInvalid, "Unique(1ms)"},
			{d.item(task(0), asynq.TaskID(" ")), scheduler.ErrInvalid, "TaskID"},
			{d.item(task(0), asynq.Queue("")), scheduler.ErrInvalid, "Queue"},
			{d.item(task(0), strange{}), scheduler.ErrInvalid, "Strange()"},
			{d.item(asynq.NewTask("call", nil, asynq.Deadline(soon))), scheduler.ErrInvalid, "pass it to Enqueue"},
			{d.item(task(0), asynq.Deadline(time.Now().Add(-time.Hour))), reserve.ErrWouldMissDeadline, "Deadline"},
			{d.item(task(0), asynq.Deadline(soon), asynq.ProcessAt(soon.Add(1))), reserve.ErrWouldMissDeadline, "Deadline"},
		}
		var items []scheduler.Item
		for _, b := range bad {
			items = append(items, d.item(task(1)), b.item)
		}
		forecasts, err := d.EnqueueAll(t.Context(), items)
		require.EqualError(t, err,
			"scheduler: 14 of 28 tasks were not enqueued; the first: item 1, invalid task: must not be nil")
		require.ErrorIs(t, err, scheduler.ErrInvalid)
		for i, b := range bad {
			good, f := forecasts[2*i], forecasts[2*i+1]
			require.NoError(t, good.Err)
			require.Equal(t, max(1, i), place(good.At), "before %q", b.says)
			require.ErrorContains(t, f.Err, b.says)
			if b.is != nil {
				require.ErrorIs(t, f.Err, b.is)
			}
			require.Equal(t, scheduler.Forecast{Err: f.Err}, f)

			_, err := d.Enqueue(t.Context(), b.item.Task, b.item.Options...)
			require.ErrorContains(t, err, b.says)
		}
		require.EqualValues(t, len(bad), d.state().Booked)
	})
}

// strange is an option that nobody knows.
type strange struct{}

func (strange) String() string         { return "Strange()" }
func (strange) Type() asynq.OptionType { return -1 }
func (strange) Value() any             { return nil }

func TestATaskThatSkipsIsEnqueuedAsItIs(t *testing.T) {
	d := open(t, redistest.Mini(t), reserve.Every(interval), scheduler.Config{})
	skips := asynq.NewTaskWithHeaders("call", nil, scheduler.Need{Skip: true}.Headers(), asynq.Deadline(time.Now().Add(time.Hour)))
	f, err := d.Enqueue(t.Context(), skips, d.in(asynq.Group("g"))...)
	require.NoError(t, err)
	require.Equal(t, asynq.TaskStateAggregating, f.Info.State)
	require.Zero(t, d.scripts.Load())
}

func TestNothingIsTakenOnceItIsOver(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		d := open(t, server, reserve.Every(interval), scheduler.Config{})
		d.must()
		before := d.state().Booked

		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := d.Enqueue(ended, task(0), d.in()...)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, before, d.state().Booked)

		require.NoError(t, d.limiter.Close())
		_, err = d.Enqueue(t.Context(), task(0), d.in()...)
		require.ErrorIs(t, err, reserve.ErrClosed)
		d.limiter = d.newLimiter("api", reserve.Every(interval))
		require.Equal(t, before, d.state().Booked)
	})
}

func TestATaskThatAsynqDoesNotTakeIsNotExpected(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		d := open(t, server, reserve.Every(interval), scheduler.Config{})
		d.must()
		kept := d.must(asynq.TaskID("kept"))
		before := d.state()

		lost := d.newScheduler(away(t), scheduler.Config{})
		items := []scheduler.Item{
			d.item(task(1)), d.item(task(2), asynq.TaskID("new")), d.item(task(3), asynq.TaskID("kept")), d.item(task(4)),
		}
		forecasts, err := lost.EnqueueAll(t.Context(), items)
		require.ErrorContains(t, err, "4 of 4")
		for _, f := range forecasts {
			require.Error(t, f.Err)
			require.False(t, errors.Is(f.Err, reserve.ErrUnavailable), "it is asynq's Redis: %v", f.Err)
		}
		after := d.state()
		require.Equal(t, before.Booked+1, after.Booked, "an own ID may be another task's")
		require.Equal(t, place(kept.At), place(d.due("kept")))
	})
}

func TestALostReplyBooksOnce(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		d := open(t, server, reserve.Every(interval), scheduler.Config{})
		d.must()
		before := d.state()
		d.replied = func() error { d.replied = nil; return io.ErrUnexpectedEOF }
		f, err := d.Enqueue(t.Context(), task(0), d.in()...)
		require.NoError(t, err)
		require.Nil(t, d.replied)
		require.Equal(t, 2, place(f.At))
		require.Equal(t, before.Booked+1, d.state().Booked)
	})
}

func TestTheEndOfTheContextEndsBookings(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		d := open(t, server, reserve.Every(interval).Burst(3), scheduler.Config{})
		d.must()
		ctx, cancel := context.WithCancel(t.Context())
		d.replied = func() error { d.replied = nil; cancel(); return nil } // they are booked
		_, err := d.EnqueueAll(ctx, []scheduler.Item{d.item(task(1)), d.item(task(2)), d.item(task(3), asynq.TaskID("own"))})
		require.ErrorContains(t, err, "3 of 3")
		require.ErrorContains(t, err, "context canceled")
		require.EqualValues(t, 1+1, d.state().Booked, "an own ID may be another task's")
	})
}

// IDs of one's own are booked in the same order as others.
func TestOwnIDsDoNotGoFirst(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		d := open(t, server, reserve.Every(interval).Burst(3), scheduler.Config{})
		items := []scheduler.Item{
			d.item(task(1)), d.item(task(2), asynq.TaskID("a")), d.item(task(3)), d.item(task(4)), d.item(task(5), asynq.TaskID("b")),
		}
		forecasts, err := d.EnqueueAll(t.Context(), items)
		require.NoError(t, err)
		for i, f := range forecasts {
			require.Equal(t, max(1, i-1), place(f.At))
		}
	})
}
