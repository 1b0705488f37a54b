// Package turn is what worker and scheduler agree on about an asynq task: which
// limits it needs, under which ID it waits for them, and how long before its turn a
// task has to be back.
package turn

import (
	"fmt"
	"slices"

	"github.com/fleetpace/fleetpace/reserve"
)

// Joint is the limits of a task: usual where it names none, with its key in the
// first one. Errors are those of [reserve.All].
func Joint(usual, limits reserve.Turns, key string) (*reserve.Joint, error) {
	if limits == nil {
		limits = usual
	}
	all := limits.Limits()
	if key != "" && len(all) > 0 && all[0] != nil {
		all = slices.Clone(all)
		all[0] = all[0].For(key)
	}
	return reserve.All(all...)
}

// Costs are those of a task for each of its limits: one for all of them, or one for
// each. What is not given is 1.
func Costs(one int, each []int, limits int) ([]int, error) {
	switch {
	case len(each) == 0:
		return slices.Repeat([]int{max(one, 1)}, limits), nil
	case one != 0:
		return nil, fmt.Errorf("Turn.Cost and Turn.Costs: set one of them, got %d and %v", one, each)
	case len(each) != limits:
		return nil, fmt.Errorf("Turn.Costs: must be one for each of the %d limits, got %v", limits, each)
	}
	return each, nil
}
