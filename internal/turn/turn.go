// Package turn is what worker and scheduler agree on about an asynq task: which
// turn it needs, under which ID it waits for it, and how long before it a task
// has to be back.
package turn

import (
	"context"
	"fmt"
	"strconv"

	"github.com/hibiken/asynq"

	"github.com/fleetpace/fleetpace/reserve"
)

// Turn is what a task needs before it may run.
type Turn struct {
	// Limiter to wait for; nil for the one that the Worker or Scheduler was made
	// with. It has to be paced, see [reserve.KindPaced].
	Limiter *reserve.Limiter

	// Key of the tenant, host or account within the limiter, as for
	// [reserve.Limiter.For]. Empty for the limiter itself.
	Key string

	// Cost in permits, from 1 to the limit's burst. 0 means 1.
	Cost int

	// Skip is for a task that calls nothing: it runs without a turn.
	Skip bool
}

// The headers that [FromHeaders] reads.
const (
	KeyHeader  = "fleetpace-key"
	CostHeader = "fleetpace-cost"
	SkipHeader = "fleetpace-skip"
)

// FromHeaders reads the turn from the task's headers, so that whoever enqueues a
// task says what it costs. A task without these headers costs one permit of the
// limiter itself.
func FromHeaders(_ context.Context, task *asynq.Task) (Turn, error) {
	headers := task.Headers()
	t := Turn{Key: headers[KeyHeader]}
	var err error
	if text, ok := headers[CostHeader]; ok {
		if t.Cost, err = strconv.Atoi(text); err != nil || t.Cost < 1 {
			return Turn{}, fmt.Errorf("header %s must be a whole number of at least 1, got %q", CostHeader, text)
		}
	}
	if text, ok := headers[SkipHeader]; ok {
		if t.Skip, err = strconv.ParseBool(text); err != nil {
			return Turn{}, fmt.Errorf("header %s must be true or false, got %q", SkipHeader, text)
		}
	}
	return t, nil
}

// Headers are those that FromHeaders reads t from. The Limiter does not travel.
func (t Turn) Headers() map[string]string {
	headers := make(map[string]string)
	if t.Key != "" {
		headers[KeyHeader] = t.Key
	}
	if t.Cost > 0 {
		headers[CostHeader] = strconv.Itoa(t.Cost)
	}
	if t.Skip {
		headers[SkipHeader] = "true"
	}
	return headers
}

// Unfit says why tasks can not take turns of a limiter, and what to do; it is empty where
// they can. A task that is put back keeps a number of the line, and only paced limits have
// those.
func Unfit(l *reserve.Limiter) string {
	limit := l.Limit()
	if limit.Kind() == reserve.KindPaced {
		return ""
	}
	return fmt.Sprintf("%q is of kind %v (%v), and tasks can take turns of a paced limit only: use one,"+
		" such as reserve.PerSecond(10), or call Wait of this limiter in the handler", l, limit.Kind(), limit)
}

// In returns the limiter of the turn's line, and its cost. Its key is checked by
// the call that is made on it.
func (t Turn) In(usual *reserve.Limiter) (*reserve.Limiter, int) {
	limiter, cost := t.Limiter, t.Cost
	if limiter == nil {
		limiter = usual
	}
	if t.Key != "" {
		limiter = limiter.For(t.Key)
	}
	if cost == 0 {
		cost = 1
	}
	return limiter, cost
}
