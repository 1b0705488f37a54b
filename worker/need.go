package worker

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/hibiken/asynq"

	"github.com/fleetpace/fleetpace/reserve"
)

// Need is what a task needs before it may run. The zero Need is one permit of each of the usual
// limits, which are the limits that the Worker or Scheduler was made with.
type Need struct {
	// Limits are a Limiter or a Joint to wait for; nil for the usual limits.
	Limits reserve.Turns

	// Key is the tenant, host or account within the first limit, as for [reserve.Limiter.For].
	// Empty means no key.
	Key string

	// Cost is how many permits the task needs of each limit, from 1 to the smallest burst. 0 means
	// 1.
	Cost int

	// Costs are permits of each limit, in their order, if they differ. Then leave Cost 0.
	Costs []int

	// Flow is one of the tenants or accounts that share the limits. Each flow gets its turns by its
	// Weight, whatever the others enqueue: see [reserve.Limiter.Flow]. If it is empty, the flow of
	// the limits applies; by default they have no flow.
	Flow string

	// Weight is the weight of the flow, from 0.000001 to 1,000,000: see [reserve.Limiter.Weight]. 0
	// means the weight of the limits, by default 1.
	Weight float64

	// Urgent lets the task go ahead of other waiting tasks, within the part of the limit in
	// [reserve.Config.Urgent].
	Urgent bool

	// Skip is for a task that calls nothing: it runs without a turn.
	Skip bool
}

// The headers that FromHeaders reads.
const (
	keyHeader    = "fleetpace-key"
	costHeader   = "fleetpace-cost"
	flowHeader   = "fleetpace-flow"
	weightHeader = "fleetpace-weight"
	urgentHeader = "fleetpace-urgent"
	skipHeader   = "fleetpace-skip"
)

// FromHeaders is the default of Config.Need. It reads key, costs, flow, weight, urgent and skip
// from the task's headers, where [Need.Headers] writes them. So the program that enqueues a task
// sets its cost. A task without such headers costs one permit of each of the usual limits. The
// error is an [ErrInvalid] that names the wrong header and its value.
func FromHeaders(_ context.Context, task *asynq.Task) (Need, error) {
	headers := task.Headers()
	t := Need{Key: headers[keyHeader], Flow: headers[flowHeader]}
	if text, ok := headers[costHeader]; ok {
		for part := range strings.SplitSeq(text, ",") {
			cost, err := strconv.Atoi(part)
			if err != nil || cost < 1 {
				return Need{}, fmt.Errorf("%w header %s: must be a whole number of at least 1, or several with commas between them, got %q",
					ErrInvalid, costHeader, text)
			}
			t.Costs = append(t.Costs, cost)
		}
		if len(t.Costs) == 1 {
			t.Cost, t.Costs = t.Costs[0], nil
		}
	}
	if text, ok := headers[weightHeader]; ok {
		var err error
		if t.Weight, err = strconv.ParseFloat(text, 64); err != nil {
			return Need{}, fmt.Errorf("%w header %s: must be a number, got %q", ErrInvalid, weightHeader, text)
		}
	}
	var err error
	if t.Urgent, err = boolean(headers, urgentHeader); err == nil {
		t.Skip, err = boolean(headers, skipHeader)
	}
	if err != nil {
		return Need{}, err
	}
	return t, nil
}

// boolean reads a header; false if it is missing.
func boolean(headers map[string]string, name string) (bool, error) {
	text, ok := headers[name]
	if !ok {
		return false, nil
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%w header %s: must be true or false, got %q", ErrInvalid, name, text)
	}
	return value, nil
}

// Headers returns the headers from which [FromHeaders] reads t. They do not contain the Limits.
func (t Need) Headers() map[string]string {
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
	if t.Flow != "" {
		headers[flowHeader] = t.Flow
	}
	if t.Weight != 0 {
		headers[weightHeader] = strconv.FormatFloat(t.Weight, 'g', -1, 64)
	}
	if t.Urgent {
		headers[urgentHeader] = "true"
	}
	if t.Skip {
		headers[skipHeader] = "true"
	}
	return headers
}
