package worker

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/hibiken/asynq"

	"github.com/fleetpace/fleetpace/reserve"
)

// Turn is what a task needs before it may run. The zero Turn is one permit of each
// of the usual limits.
type Turn struct {
	// Limits to wait for, a Limiter or a Joint; nil for those that the Worker or
	// Scheduler was made with.
	Limits reserve.Turns

	// Key of the tenant, host or account within the first of the limits, as for
	// [reserve.Limiter.For]. Empty for that limit itself.
	Key string

	// Cost in permits, the same for each of the limits, from 1 to the least burst.
	// 0 means 1.
	Cost int

	// Costs are permits of each of the limits, in their order, where they differ.
	// Leave Cost 0 then.
	Costs []int

	// Skip is for a task that calls nothing: it runs without a turn.
	Skip bool
}

// The headers that FromHeaders reads.
const (
	keyHeader  = "fleetpace-key"
	costHeader = "fleetpace-cost"
	skipHeader = "fleetpace-skip"
)

// FromHeaders is the default of Config.Turn: it reads key, costs and skip from the
// task's headers, where [Turn.Headers] puts them, so that whoever enqueues a task
// says what it costs. A task without them costs one permit of each of the usual
// limits.
func FromHeaders(_ context.Context, task *asynq.Task) (Turn, error) {
	headers := task.Headers()
	t := Turn{Key: headers[keyHeader]}
	if text, ok := headers[costHeader]; ok {
		for part := range strings.SplitSeq(text, ",") {
			cost, err := strconv.Atoi(part)
			if err != nil || cost < 1 {
				return Turn{}, fmt.Errorf("header %s must be a whole number of at least 1, or several with commas between them, got %q",
					costHeader, text)
			}
			t.Costs = append(t.Costs, cost)
		}
		if len(t.Costs) == 1 {
			t.Cost, t.Costs = t.Costs[0], nil
		}
	}
	if text, ok := headers[skipHeader]; ok {
		var err error
		if t.Skip, err = strconv.ParseBool(text); err != nil {
			return Turn{}, fmt.Errorf("header %s must be true or false, got %q", skipHeader, text)
		}
	}
	return t, nil
}

// Headers are those that FromHeaders reads t from. The Limits do not travel.
func (t Turn) Headers() map[string]string {
	headers := make(map[string]string)
	if t.Key != "" {
		headers[keyHeader] = t.Key
	}
	costs := t.Costs
	if t.Cost > 0 {
		costs = []int{t.Cost}
	}
	if len(costs) > 0 {
		texts := make([]string, len(costs))
		for i, cost := range costs {
			texts[i] = strconv.Itoa(cost)
		}
		headers[costHeader] = strings.Join(texts, ",")
	}
	if t.Skip {
		headers[skipHeader] = "true"
	}
	return headers
}
