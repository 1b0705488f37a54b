package scheduler_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/internal/turn"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/scheduler"
)

func TestATurnAfterTheDeadlineTakesNothing(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		d := open(t, server, reserve.Every(interval), scheduler.Config{})
		for range 4 {
			d.must()
		}
		_, err := d.Enqueue(t.Context(), task(0), d.in(asynq.Deadline(time.Now().Add(3*interval)))...)
		require.ErrorIs(t, err, reserve.ErrWouldMissDeadline)

		in := d.must(asynq.Deadline(time.Now().Add(5 * interval)))
		require.EqualValues(t, 5, in.Number, "the refused one took no number")
		require.False(t, in.Info.Deadline.IsZero())
	})
}

// asynq ends a task at the last whole second before its Deadline.
func TestADeadlineCountsInWholeSeconds(t *testing.T) {
	d := open(t, redistest.Mini(t), reserve.Every(interval), scheduler.Config{})
	due := d.must().At.Add(interval - 5*time.Millisecond) // Redis's clock is known within that
	_, err := d.Enqueue(t.Context(), task(0), d.in(asynq.Deadline(due.Truncate(time.Second).Add(time.Second-1)))...)
	require.ErrorIs(t, err, reserve.ErrWouldMissDeadline)
}

func TestOptionsArePassedOn(t *testing.T) {
	d := open(t, redistest.Mini(t), reserve.Every(interval), scheduler.Config{})
	options := []asynq.Option{
		asynq.MaxRetry(3), asynq.Retention(time.Hour), asynq.Timeout(time.Minute), asynq.TaskID("own"), asynq.Queue(d.queue),
	}
	for name, enqueue := range map[string]func() (scheduler.Forecast, error){
		"of Enqueue": func() (scheduler.Forecast, error) { return d.Enqueue(t.Context(), task(0), options...) },
		"of NewTask": func() (scheduler.Forecast, error) {
			return d.Enqueue(t.Context(), asynq.NewTask("call", nil, options...))
		},
		"of both": func() (scheduler.Forecast, error) {
			return d.Enqueue(t.Context(), asynq.NewTask("call", nil, asynq.MaxRetry(9), asynq.Queue("other"), asynq.TaskID("other")), options...)
		},
	} {
		f, err := enqueue()
		require.NoError(t, err, name)
		info, err := d.inspector.GetTaskInfo(d.queue, "own")
		require.NoError(t, err, name)
		require.Equal(t, 3, info.MaxRetry, name)
		require.Equal(t, time.Hour, info.Retention, name)
		require.Equal(t, time.Minute, info.Timeout, name)
		require.Equal(t, f.Number, d.place("own"), name)
		require.NoError(t, d.inspector.DeleteTask(d.queue, "own"))
	}
}

// The options of NewTask are read from a private field of asynq: this fails when
// a version of asynq has moved it.
func TestOptionsOfNewTaskAreSeen(t *testing.T) {
	d := open(t, redistest.Mini(t), reserve.Every(interval), scheduler.Config{})
	for _, option := range []asynq.Option{
		asynq.Group("g"), asynq.Timeout(time.Second), asynq.Unique(time.Millisecond),
		asynq.Deadline(time.Now().Add(time.Hour)), asynq.ProcessAt(time.Now().Add(time.Hour)),
	} {
		_, err := d.Enqueue(t.Context(), asynq.NewTask("call", nil, option), d.in()...)
		require.ErrorIs(t, err, scheduler.ErrInvalid, "%v", option)
	}
	f, err := d.Enqueue(t.Context(), asynq.NewTask("call", nil, nil, asynq.ProcessIn(time.Hour)), d.in()...)
	require.NoError(t, err)
	require.Zero(t, f.Number)
	require.WithinDuration(t, time.Now().Add(time.Hour), f.At, 10*time.Second)
}

// A task that is enqueued twice at a time must not have its options mixed up, not
// even where they were made of a slice with room behind it.
func TestOneTaskManyTimes(t *testing.T) {
	d := open(t, redistest.Mini(t), reserve.PerSecond(1000), scheduler.Config{})
	roomy := append(make([]asynq.Option, 0, 16), asynq.MaxRetry(3))
	same := asynq.NewTask("call", nil, roomy...)
	items := make([]scheduler.Item, 200)
	for i := range items {
		items[i] = d.item(same)
	}
	forecasts, err := d.EnqueueAll(t.Context(), items)
	require.NoError(t, err)
	for _, f := range forecasts {
		require.Equal(t, f.Number, d.place(f.Info.ID))
	}
}

func TestAMomentAfterTheTurn(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		d := open(t, server, reserve.Every(interval), scheduler.Config{})
		d.must()
		before := d.state()
		moment := time.Now().Add(time.Hour)
		for _, option := range []asynq.Option{asynq.ProcessAt(moment), asynq.ProcessIn(time.Hour)} {
			f := d.must(option)
			require.Zero(t, f.Number)
			require.False(t, f.At.Before(moment))
			require.WithinDuration(t, moment, f.At, 10*time.Second)
			info, err := d.inspector.GetTaskInfo(d.queue, f.Info.ID)
			require.NoError(t, err)
			require.Equal(t, f.At.UnixNano(), info.NextProcessAt.UnixNano(), "rounded up, not down")
		}
		require.Equal(t, before.Waiting, d.state().Waiting)
	})
}

// Tasks for later are not in the way of those behind them, not for a moment.
func TestTasksForLaterTakeNoNumbers(t *testing.T) {
	d := open(t, redistest.Mini(t), reserve.Every(interval), scheduler.Config{})
	d.must()
	var items []scheduler.Item
	for i := range 5 {
		items = append(items, d.item(task(i), asynq.ProcessIn(time.Hour)))
	}
	forecasts, err := d.EnqueueAll(t.Context(), append(items, d.item(task(5))))
	require.NoError(t, err)
	require.EqualValues(t, 2, forecasts[5].Number)
}

func TestAMomentBeforeTheTurn(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		d := open(t, server, reserve.Every(interval), scheduler.Config{})
		for range 4 {
			d.must()
		}
		f := d.must(asynq.ProcessIn(2 * interval))
		require.EqualValues(t, 5, f.Number)
		require.WithinDuration(t, time.Now().Add(4*interval), f.At, interval/2)
		require.Equal(t, f.At.Add(-turn.Lead(turn.PollInterval, turn.PollInterval, d.limiter.Lead())), f.Info.NextProcessAt)
	})
}

// Awake too early, a task might be given the turn of somebody who is late.
func TestATaskDoesNotComeUpBeforeItsMoment(t *testing.T) {
	d := open(t, redistest.Mini(t), reserve.Every(interval), scheduler.Config{})
	for range 4 {
		d.must()
	}
	moment := time.Now().Add(4*interval - 300*time.Millisecond)
	f := d.must(asynq.ProcessAt(moment))
	require.EqualValues(t, 5, f.Number)
	require.False(t, f.At.Before(moment))
	require.False(t, f.Info.NextProcessAt.Before(moment))
	require.WithinDuration(t, moment, f.Info.NextProcessAt, time.Second)
}

// A number that was given back in the middle of the line is offered first; it is
// too early here, though the line is long enough.
func TestANumberBeforeTheMomentGoesBack(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		d := open(t, server, reserve.Every(interval), scheduler.Config{})
		for _, id := range []string{"1", "2", "3", "4"} {
			d.must(asynq.TaskID(id))
		}
		gone, err := d.limiter.Cancel(t.Context(), turn.ID(d.queue, "2", 0), 1)
		require.NoError(t, err)
		require.True(t, gone)
		before := d.state()
		require.EqualValues(t, 1, before.Free)

		f := d.must(asynq.ProcessIn(3 * interval))
		require.Zero(t, f.Number)
		after := d.state()
		require.Equal(t, before.Free, after.Free)
		require.Equal(t, before.Waiting, after.Waiting)
	})
}

func TestDuplicatesGiveTheirNumbersBack(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		d := open(t, server, reserve.Every(interval), scheduler.Config{})
		ttl := time.Hour
		for range 3 {
			d.must()
		}
		first := d.must(asynq.Unique(ttl))
		before := d.state()
		_, err := d.Enqueue(t.Context(), task(0), d.in(asynq.Unique(ttl))...)
		require.ErrorIs(t, err, asynq.ErrDuplicateTask)
		require.Equal(t, before.Waiting, d.state().Waiting)
		require.Equal(t, before.Line, d.state().Line)

		locks, err := d.redis.Keys(t.Context(), "asynq:{"+d.queue+"}:unique:*").Result()
		require.NoError(t, err)
		require.Len(t, locks, 1)
		left, err := d.redis.TTL(t.Context(), locks[0]).Result()
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Now().Add(left), first.At.Add(ttl), "it outlives the wait")
		require.Less(t, time.Now().Add(left), first.At.Add(ttl+5*time.Second))
	})
}

func TestAConflictKeepsThePlaceOfTheOther(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		d := open(t, server, reserve.Every(interval), scheduler.Config{})
		d.must()
		for name, options := range map[string][]asynq.Option{
			"conflict": {asynq.TaskID("own")},
			"lock":     {asynq.TaskID("locked"), asynq.Unique(time.Hour)},
		} {
			first := d.must(options...)
			d.must() // the first is not the last of the line
			before := d.state()
			for range 3 {
				_, err := d.Enqueue(t.Context(), task(0), d.in(options...)...)
				if name == "conflict" {
					require.ErrorIs(t, err, asynq.ErrTaskIDConflict)
				} else {
					require.ErrorIs(t, err, asynq.ErrDuplicateTask)
				}
			}
			require.Equal(t, before.Waiting, d.state().Waiting, name)
			require.Equal(t, before.Line, d.state().Line, name)
			require.Equal(t, first.Number, d.place(first.Info.ID), name)
		}
	})
}

// Two producers enqueue the same ID at the same time: one wins, and its task has
// the number that its forecast says.
func TestTwoProducersOfOneID(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		d := open(t, server, reserve.Every(interval), scheduler.Config{})
		d.must()
		items := []scheduler.Item{d.item(task(1), asynq.TaskID("own")), d.item(task(2), asynq.TaskID("own"))}
		forecasts, err := d.EnqueueAll(t.Context(), items)
		require.ErrorIs(t, err, asynq.ErrTaskIDConflict)
		require.ErrorContains(t, err, "1 of 2")
		for _, f := range forecasts {
			if f.Err == nil {
				require.Equal(t, f.Number, d.place("own"))
			}
		}
	})
}

// The task of that ID needs no turn any more, but nobody can tell: the number
// stays, once.
func TestAConflictCostsOneIntervalAtMost(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		d := open(t, server, reserve.Every(interval), scheduler.Config{})
		d.must()
		_, err := d.client.Enqueue(task(0), d.in(asynq.TaskID("own"))...)
		require.NoError(t, err)
		require.NoError(t, d.inspector.ArchiveTask(d.queue, "own"))
		before := d.state()
		for range 3 {
			_, err := d.Enqueue(t.Context(), task(0), d.in(asynq.TaskID("own"))...)
			require.ErrorIs(t, err, asynq.ErrTaskIDConflict)
		}
		require.Equal(t, before.Line+1, d.state().Line)
	})
}

func TestAnotherLimiter(t *testing.T) {
	var other *reserve.Limiter
	d := open(t, redistest.Mini(t), reserve.Every(interval), scheduler.Config{
		Turn: func(_ context.Context, task *asynq.Task) (scheduler.Turn, error) {
			if strings.HasPrefix(task.Type(), "other") {
				return scheduler.Turn{Limiter: other, Cost: 2}, nil
			}
			return scheduler.Turn{}, nil
		},
	})
	var err error
	other, err = reserve.New(d.redis, reserve.Config{
		Name: "other", Prefix: d.queue, Limit: reserve.Every(interval).Burst(2), InlineBound: 3 * time.Second,
	})
	require.NoError(t, err)
	var items []scheduler.Item
	for range 3 {
		items = append(items, d.item(task(0)), d.item(asynq.NewTask("other", nil)))
	}
	forecasts, err := d.EnqueueAll(t.Context(), items)
	require.NoError(t, err)
	for i, f := range forecasts {
		cost := int64(i%2 + 1)
		require.Equal(t, int64(i/2+1)*cost, f.Number, "each in its own line")
		if f.Info.State == asynq.TaskStateScheduled {
			lead := turn.Lead(turn.PollInterval, turn.PollInterval, []*reserve.Limiter{d.limiter, other}[i%2].Lead())
			require.Equal(t, f.At.Add(-lead), f.Info.NextProcessAt, "each back when its limiter wants it")
		}
	}
}

// Only a paced limit has numbers that tasks could take.
func TestLimitersThatAreNotPaced(t *testing.T) {
	d := open(t, redistest.Mini(t), reserve.Every(interval), scheduler.Config{})
	for kind, limit := range map[string]reserve.Limit{
		"quota":      reserve.Quota(100, reserve.CalendarDay),
		"rolling":    reserve.Rolling(10, time.Second),
		"warming up": reserve.PerSecond(10).WarmUp(time.Second),
	} {
		wrong := d.newLimiter("unfit", limit)
		_, err := scheduler.New(d.client, wrong, scheduler.Config{})
		require.ErrorIs(t, err, scheduler.ErrInvalid)
		require.ErrorContains(t, err, `scheduler: invalid limiter: "unfit" is of kind `+kind)
		require.ErrorContains(t, err, "a paced limit only: use one, such as reserve.PerSecond(10)")

		chooses := d.newScheduler(d.client, scheduler.Config{Turn: func(context.Context, *asynq.Task) (scheduler.Turn, error) {
			return scheduler.Turn{Limiter: wrong}, nil
		}})
		_, err = chooses.Enqueue(t.Context(), task(0), d.in()...)
		require.ErrorIs(t, err, scheduler.ErrInvalid)
		require.ErrorContains(t, err, `invalid Turn.Limiter: "unfit" is of kind `+kind)
	}
	queues, err := d.inspector.Queues()
	require.NoError(t, err)
	require.NotContains(t, queues, d.queue, "nothing was enqueued")
}
