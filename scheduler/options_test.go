package scheduler_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/asynqtest"
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
		require.Equal(t, 5, place(in.At), "the refused one is not booked")
		require.False(t, in.Info.Deadline.IsZero())
	})
}

// asynq ends a task at the last whole second before its Deadline.
func TestADeadlineCountsInWholeSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := asynqtest.Open(t)
		l := f.Limiter(f.Client(), reserve.Config{Limit: reserve.Every(interval)})
		s, err := scheduler.New(asynq.NewClientFromRedisClient(f.Client()), l, scheduler.Config{})
		require.NoError(t, err)
		enqueue := func(options ...asynq.Option) (scheduler.Forecast, error) {
			return s.Enqueue(t.Context(), task(0), append(options, asynq.Queue(asynqtest.Queue))...)
		}
		time.Sleep(500 * time.Millisecond) // so turns are in the middle of a second
		first, err := enqueue()
		require.NoError(t, err)
		due := first.At.Add(interval)
		before := due.Truncate(time.Second)
		_, err = enqueue(asynq.Deadline(before.Add(time.Second - 1)))
		require.ErrorIs(t, err, reserve.ErrWouldMissDeadline)
		second, err := enqueue(asynq.Deadline(before.Add(time.Second)))
		require.NoError(t, err)
		require.WithinDuration(t, due, second.At, 10*time.Millisecond)
	})
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
		require.Equal(t, place(f.At), place(d.due("own")), name)
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
	require.WithinDuration(t, time.Now().Add(time.Hour), f.At, interval/2)
}

// A task that is enqueued twice at a time must not have its options mixed up, not
// even where they were made of a slice with room behind it.
func TestOneTaskManyTimes(t *testing.T) {
	d := open(t, redistest.Mini(t), reserve.Every(interval), scheduler.Config{})
	roomy := append(make([]asynq.Option, 0, 16), asynq.MaxRetry(3))
	same := asynq.NewTask("call", nil, roomy...)
	items := make([]scheduler.Item, 200)
	for i := range items {
		items[i] = d.item(same)
	}
	forecasts, err := d.EnqueueAll(t.Context(), items)
	require.NoError(t, err)
	for _, f := range forecasts {
		require.WithinDuration(t, f.At, d.due(f.Info.ID), interval/2)
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
			require.False(t, f.At.Before(moment))
			require.WithinDuration(t, moment, f.At, interval/2)
			info, err := d.inspector.GetTaskInfo(d.queue, f.Info.ID)
			require.NoError(t, err)
			require.Equal(t, f.At.UnixNano(), info.NextProcessAt.UnixNano(), "rounded up, not down")
		}
		require.Equal(t, before.Booked, d.state().Booked)
	})
}

// Tasks for later are not in the way of those behind them, not for a moment.
func TestTasksForLaterAreNotInTheWay(t *testing.T) {
	d := open(t, redistest.Mini(t), reserve.Every(interval), scheduler.Config{})
	d.must()
	var items []scheduler.Item
	for i := range 5 {
		items = append(items, d.item(task(i), asynq.ProcessIn(time.Hour)))
	}
	forecasts, err := d.EnqueueAll(t.Context(), append(items, d.item(task(5))))
	require.NoError(t, err)
	require.Equal(t, 2, place(forecasts[5].At))
}

func TestAMomentBeforeTheTurn(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		d := open(t, server, reserve.Every(interval), scheduler.Config{})
		for range 4 {
			d.must()
		}
		f := d.must(asynq.ProcessIn(2 * interval))
		require.Equal(t, 5, place(f.At))
		require.WithinDuration(t, time.Now().Add(4*interval), f.At, interval/2)
		require.Equal(t, f.At.Add(-turn.Lead(turn.PollInterval, turn.PollInterval, reserve.Lead)), f.Info.NextProcessAt)
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
	require.Equal(t, 5, place(f.At))
	require.False(t, f.At.Before(moment))
	require.False(t, f.Info.NextProcessAt.Before(moment))
	require.WithinDuration(t, moment, f.Info.NextProcessAt, time.Second)
}

// The booking of an ID of one's own may be another task's: a task for later leaves it alone.
func TestAnOwnIDForLater(t *testing.T) {
	d := open(t, redistest.Mini(t), reserve.Every(interval), scheduler.Config{})
	for _, id := range []string{"1", "2", "3"} {
		d.must(asynq.TaskID(id))
	}
	_, err := d.Enqueue(t.Context(), task(0), d.in(asynq.TaskID("2"), asynq.ProcessIn(time.Hour))...)
	require.ErrorIs(t, err, asynq.ErrTaskIDConflict)
	require.Equal(t, 2, place(d.due("2")))
	require.EqualValues(t, 3, d.state().Booked)
	later := d.must(asynq.TaskID("later"), asynq.ProcessIn(interval))
	require.WithinDuration(t, time.Now().Add(interval), later.At, interval/2)
	require.EqualValues(t, 3, d.state().Booked)
}

func TestDuplicatesAreNotBooked(t *testing.T) {
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
		require.Equal(t, before.Booked, d.state().Booked)

		locks, err := d.redis.Keys(t.Context(), "asynq:{"+d.queue+"}:unique:*").Result()
		require.NoError(t, err)
		require.Len(t, locks, 1)
		left, err := d.redis.PTTL(t.Context(), locks[0]).Result()
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
			d.must() // the first is not the last
			before := d.state()
			for range 3 {
				_, err := d.Enqueue(t.Context(), task(0), d.in(options...)...)
				if name == "conflict" {
					require.ErrorIs(t, err, asynq.ErrTaskIDConflict)
				} else {
					require.ErrorIs(t, err, asynq.ErrDuplicateTask)
				}
			}
			require.Equal(t, before.Booked, d.state().Booked, name)
			require.Equal(t, place(first.At), place(d.due(first.Info.ID)), name)
		}
	})
}

// Two producers enqueue the same ID at the same time: one wins, and its task has
// the turn that its forecast says.
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
				require.Equal(t, place(f.At), place(d.due("own")))
			}
		}
	})
}

// The task of that ID needs no turn any more, but nobody can tell: it stays booked, once.
func TestAConflictIsBookedOnceAtMost(t *testing.T) {
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
		require.Equal(t, before.Booked+1, d.state().Booked)
	})
}

// A task may name other limits, of any kind, and several: each has its own order.
func TestOtherLimits(t *testing.T) {
	d := open(t, redistest.Mini(t), reserve.Every(interval), scheduler.Config{})
	grouped := func(name string, limit reserve.Limit) *reserve.Limiter {
		l, err := reserve.New(d.redis, reserve.Config{Name: name, Group: "shop", Prefix: d.queue, Limit: limit})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, l.Close()) })
		return l
	}
	tenants, account := grouped("tenants", reserve.Every(interval)), grouped("account", reserve.Every(interval/4).Burst(2))
	names := []string{"oslo", "lima"}
	s := d.newScheduler(d.client, scheduler.Config{Need: func(_ context.Context, task *asynq.Task) (scheduler.Need, error) {
		both, err := reserve.All(tenants, account)
		switch task.Type() {
		case "usual":
			return scheduler.Need{}, nil
		case "each its own": // a Joint for each task is as good as a Key
			both, err = reserve.All(tenants.For(string(task.Payload())), account)
			return scheduler.Need{Limits: both, Costs: []int{1, 2}}, err
		}
		return scheduler.Need{Limits: both, Key: string(task.Payload()), Costs: []int{1, 2}}, err
	}})
	for _, kind := range []string{"usual", "with a key", "each its own"} {
		var items []scheduler.Item
		for i := range 6 {
			items = append(items, d.item(asynq.NewTask(kind, []byte(names[i%2]))))
		}
		forecasts, err := s.EnqueueAll(t.Context(), items)
		require.NoError(t, err)
		for i, f := range forecasts {
			want := i + 1
			switch kind {
			case "with a key":
				want = i/2 + 1
			case "each its own":
				want = i/2 + 4
			}
			require.Equal(t, want, place(f.At), "%s: %d", kind, i)
			if f.Info.State == asynq.TaskStateScheduled {
				require.Equal(t, f.At.Add(-turn.Lead(turn.PollInterval, turn.PollInterval, reserve.Lead)), f.Info.NextProcessAt)
			}
		}
	}
}

// Every kind of limit has forecasts.
func TestKindsOfLimits(t *testing.T) {
	d := open(t, redistest.Mini(t), reserve.Every(interval), scheduler.Config{})
	for name, kind := range map[string]struct {
		limit   reserve.Limit
		longest time.Duration
	}{
		"quota":      {reserve.Quota(3, reserve.CalendarDay), 24 * time.Hour},
		"rolling":    {reserve.Rolling(3, time.Hour), time.Hour},
		"warming up": {reserve.PerMinute(1).WarmUp(time.Minute), time.Hour},
	} {
		l := d.newLimiter(name, kind.limit)
		s, err := scheduler.New(d.client, l, scheduler.Config{})
		require.NoError(t, err)
		var items []scheduler.Item
		for i := range 5 {
			items = append(items, d.item(task(i)))
		}
		forecasts, err := s.EnqueueAll(t.Context(), items)
		require.NoError(t, err, name)
		require.WithinDuration(t, time.Now(), forecasts[0].At, interval/2, name)
		for i := 1; i < len(forecasts); i++ {
			require.False(t, forecasts[i].At.Before(forecasts[i-1].At.Add(-time.Millisecond)), name)
		}
		last := time.Until(forecasts[4].At)
		require.Greater(t, last, time.Second, name)
		require.Less(t, last, kind.longest+time.Minute, name)
	}
}
