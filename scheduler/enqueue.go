package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"golang.org/x/sync/errgroup"

	"github.com/fleetpace/fleetpace/internal/turn"
)

const (
	// atOnce is how many round trips are under way. asynq enqueues tasks one by
	// one.
	atOnce = 16

	// tidyUp bounds how long numbers are given back after the first failure.
	tidyUp = 5 * time.Second
)

// batch is one window of items on its way.
type batch struct {
	*Scheduler
	tidyBy func() time.Time
}

// enqueue takes numbers for the items and enqueues them. Errors are those of the
// forecasts, without names.
func (s *Scheduler) enqueue(ctx context.Context, items []Item, forecasts []Forecast) {
	b := &batch{Scheduler: s, tidyBy: sync.OnceValue(func() time.Time { return time.Now().Add(tidyUp) })}
	entries := make([]*entry, 0, len(items))
	lines := make(map[lineKey]*line)
	var inOrder []*line
	for i, item := range items {
		e, key, err := s.entry(ctx, item)
		if err != nil {
			forecasts[i].Err = err
			continue
		}
		e.forecast = &forecasts[i]
		entries = append(entries, e)
		if e.skip {
			continue
		}
		if lines[key] == nil {
			lines[key] = &line{limiter: e.limiter}
			inOrder = append(inOrder, lines[key])
		}
		lines[key].entries = append(lines[key].entries, e)
	}
	each(inOrder, func(l *line) { b.lineUp(ctx, l) })
	each(entries, func(e *entry) {
		if e.forecast.Err == nil {
			b.hand(ctx, e)
		}
	})
}

// each calls f for all, in their order, some at once.
func each[T any](all []T, f func(T)) {
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, one := range all {
		group.Go(func() error { f(one); return nil })
	}
	_ = group.Wait() // f reports for itself
}

// entry reads an item; nothing is taken yet.
func (s *Scheduler) entry(ctx context.Context, item Item) (*entry, lineKey, error) {
	task := item.Task
	if task == nil {
		return nil, lineKey{}, invalid("task", "must not be nil")
	}
	if strings.TrimSpace(task.Type()) == "" {
		return nil, lineKey{}, invalid("task", "its type must not be empty")
	}
	need, err := s.config.Turn(ctx, task)
	if err != nil {
		return nil, lineKey{}, fmt.Errorf("its turn: %w", err)
	}
	if need.Skip {
		return &entry{task: task, options: item.Options, skip: true}, lineKey{}, nil
	}
	options, err := hidden(task)
	if err != nil {
		return nil, lineKey{}, err
	}
	if len(options) > 0 {
		// They are among ours from here on. asynq appends to them in place, which
		// a task that is enqueued more than once must not bear.
		task = asynq.NewTaskWithHeaders(task.Type(), task.Payload(), task.Headers())
	}
	c, err := read(append(options, item.Options...))
	if err != nil {
		return nil, lineKey{}, err
	}
	key := lineKey{need.Limiter, need.Key}
	if key.limiter == nil {
		key.limiter = s.limiter
	}
	if why := turn.Unfit(key.limiter); why != "" {
		return nil, lineKey{}, invalid("Turn.Limiter", "%s", why)
	}
	e := &entry{task: task, choice: c, id: turn.ID(c.queue, c.taskID, 0)}
	e.limiter, e.cost = need.In(s.limiter)
	// Config.Lead is for the usual limiter; another one may want its calls back
	// earlier.
	e.lead = s.config.Lead + max(0, e.limiter.Lead()-s.limiter.Lead())
	return e, key, e.choice.check(e.lead)
}

// hand gives a task to asynq.
func (b *batch) hand(ctx context.Context, e *entry) {
	f := e.forecast
	if e.skip {
		if f.Info, f.Err = b.client.EnqueueContext(ctx, e.task, e.options...); f.Err == nil {
			f.At = f.Info.NextProcessAt
		}
		return
	}
	comesUp := b.plan(ctx, e)
	info, err := b.client.EnqueueContext(ctx, e.task, e.choice.at(comesUp, e.lead)...)
	if err != nil {
		*f = Forecast{Err: b.failed(ctx, e, err)}
		return
	}
	f.Info = info
}

// plan fills in the forecast and returns when the task has to come up in asynq; in
// the past means at once.
func (b *batch) plan(ctx context.Context, e *entry) time.Time {
	f := e.forecast
	notBefore := e.choice.notBefore
	if e.reservation != nil && e.reservation.Due().Before(notBefore) {
		// If this fails, the task finds a number that is late; it gets a turn
		// after it came up all the same.
		_ = b.giveBack(ctx, e, nil)
		e.reservation = nil
	}
	if e.reservation == nil {
		f.At = wholeSecond(notBefore)
		return f.At
	}
	f.Number, f.At = e.reservation.Number(), e.reservation.Due()
	f.Ahead = ahead(e.limiter, time.Until(f.At), e.cost)
	comesUp := f.At.Add(-e.lead)
	if !notBefore.IsZero() && comesUp.Before(notBefore) {
		comesUp = wholeSecond(notBefore) // awake, it might be given an earlier turn
	}
	return comesUp
}

// failed decides what becomes of the number of a task that asynq did not take.
func (b *batch) failed(ctx context.Context, e *entry, err error) error {
	taken := errors.Is(err, asynq.ErrTaskIDConflict) || errors.Is(err, asynq.ErrDuplicateTask)
	if e.reservation == nil || taken && e.choice.own {
		return err
	}
	return b.giveBack(ctx, e, err)
}

// giveBack returns the number of an entry to the line, unless it may be that of
// another task, and returns the error that led to it.
func (b *batch) giveBack(ctx context.Context, e *entry, because error) error {
	if e.known {
		return because
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), b.tidyBy())
	defer cancel()
	if _, err := e.limiter.Cancel(ctx, e.id, e.cost); err != nil && because != nil {
		return fmt.Errorf("%w (its number stays in the line: %w)", because, err)
	}
	return because
}
