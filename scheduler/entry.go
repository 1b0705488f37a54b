package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fleetpace/fleetpace/internal/turn"
	"github.com/fleetpace/fleetpace/reserve"
)

// entry is one task that is being enqueued.
type entry struct {
	task    *asynq.Task
	options []asynq.Option // as the caller passed them
	skip    bool

	choice   choice
	limits   []*reserve.Limiter // as the caller passed them
	joint    *reserve.Joint     // the same, with the key and the flow
	together groupKey           // the group with which it is booked
	costs    []int
	id       string // the ID of its booking
	booked   bool
	forecast *Forecast
}

// entry reads an item. It books nothing yet.
func (s *Scheduler) entry(ctx context.Context, item Item) (*entry, error) {
	task := item.Task
	if task == nil {
		return nil, invalid("task", "must not be nil")
	}
	if strings.TrimSpace(task.Type()) == "" {
		return nil, invalid("task", "its type must not be empty")
	}
	need, err := s.config.Need(ctx, task)
	if err != nil {
		return nil, fmt.Errorf("its turn: %w", err)
	}
	if need.Skip {
		return &entry{task: task, options: item.Options, skip: true}, nil
	}
	options, err := hidden(task)
	if err != nil {
		return nil, err
	}
	if len(options) > 0 {
		// The new task has no options of its own; they are passed to asynq below. asynq appends to
		// a task's options in place, which must not happen to a task that is enqueued more than once.
		task = asynq.NewTaskWithHeaders(task.Type(), task.Payload(), task.Headers())
	}
	c, err := read(append(options, item.Options...))
	if err != nil {
		return nil, err
	}
	e := &entry{task: task, choice: c, id: turn.ID(c.queue, c.taskID, 0), limits: s.turns.Limits()}
	if need.Limits != nil {
		e.limits = need.Limits.Limits()
	}
	if e.joint, err = turn.Joint(s.turns, turn.Need{Limits: need.Limits, Key: need.Key, Flow: need.Flow, Weight: need.Weight, Urgent: need.Urgent}); err != nil {
		return nil, err
	}
	e.together = groupKey{e.joint.String(), need.Flow, need.Weight, need.Urgent}
	if e.costs, err = turn.Costs(need.Cost, need.Costs, len(e.limits)); err != nil {
		return nil, err
	}
	return e, e.choice.check(s.config.Lead)
}

// book books some entries of one group, in their order.
func (b *batch) book(ctx context.Context, entries []*entry) {
	for len(entries) > 0 {
		n := 1
		for n < len(entries) && slices.Equal(entries[n].limits, entries[0].limits) {
			n++
		}
		calls := make([]reserve.Call, n)
		for i, e := range entries[:n] {
			calls[i] = reserve.Call{ID: e.id, Costs: e.costs, Deadline: e.choice.deadline}
		}
		for i, joined := range entries[0].joint.Book(ctx, calls) {
			e := entries[i]
			e.booked, e.forecast.At = true, joined.Due
			switch {
			case errors.Is(joined.Err, reserve.ErrOutcomeUnknown):
				e.forecast.Err = b.leave(ctx, e, joined.Err)
			case joined.Err != nil:
				e.forecast.Err = joined.Err
			case joined.Due.Before(e.choice.notBefore):
				// If this fails, the task still has this place when it comes up.
				_ = b.leave(ctx, e, nil)
				e.booked = false
			}
		}
		entries = entries[n:]
	}
}

// leave ends the booking of an entry, unless another task may own it, and returns the error that
// led to this.
func (b *batch) leave(ctx context.Context, e *entry, because error) error {
	if e.choice.own || !e.booked {
		return because
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), b.tidyBy())
	defer cancel()
	if err := e.joint.CancelBooking(ctx, e.id, e.costs...); err != nil && because != nil {
		return fmt.Errorf("%w (it is still booked: %w)", because, err)
	}
	return because
}

// comesUp is when a task must come up in asynq. A moment in the past means at once.
func (e *entry) comesUp(lead time.Duration) time.Time {
	notBefore := e.choice.notBefore
	if !e.booked {
		e.forecast.At = wholeSecond(notBefore)
		return e.forecast.At
	}
	at := e.forecast.At.Add(-lead)
	if !notBefore.IsZero() && at.Before(notBefore) {
		at = wholeSecond(notBefore) // if it came up earlier, it could get an earlier turn
	}
	return at
}
