// Package turn holds what worker and scheduler must do alike for an asynq task: its limits, its ID in
// the queue, and how long before its turn it comes back.
package turn

import (
	"fmt"
	"slices"

	"github.com/fleetpace/fleetpace/reserve"
)

// Need is what a task needs.
type Need struct {
	Limits reserve.Turns // nil: the usual limits
	Key    string        // the key of the first limit
	Flow   string        // empty: the flow of the limits
	Weight float64       // the weight of the flow; 0: the weight of the limits
	Urgent bool
}

// Joint returns the limits of a task. Errors are those of [reserve.All].
func Joint(usual reserve.Turns, need Need) (*reserve.Joint, error) {
	limits := need.Limits
	if limits == nil {
		limits = usual
	}
	all := limits.Limits()
	if need.Key != "" && len(all) > 0 && all[0] != nil {
		all = slices.Clone(all)
		all[0] = all[0].For(need.Key)
	}
	j, err := reserve.All(all...)
	if err != nil || need.Flow == "" && need.Weight == 0 && !need.Urgent {
		return j, err
	}
	if need.Flow != "" {
		j = j.Flow(need.Flow)
	}
	if need.Weight != 0 {
		j = j.Weight(need.Weight)
	}
	if need.Urgent {
		j = j.Urgent()
	}
	return reserve.All(j.Limits()...)
}

// Costs returns the cost of a task for each of its limits. It takes one cost for all limits, or one
// for each. By default a cost is 1. Errors are a [reserve.ErrInvalid].
func Costs(one int, each []int, limits int) ([]int, error) {
	switch {
	case one < 0:
		return nil, fmt.Errorf("%w Need.Cost: must be 0 or above, got %d", reserve.ErrInvalid, one)
	case len(each) == 0:
		return slices.Repeat([]int{max(one, 1)}, limits), nil
	case one != 0:
		return nil, fmt.Errorf("%w Need.Cost and Need.Costs: set one of them, got %d and %v", reserve.ErrInvalid, one, each)
	case len(each) != limits:
		return nil, fmt.Errorf("%w Need.Costs: must be one for each of the %d limits, got %v", reserve.ErrInvalid, limits, each)
	}
	return each, nil
}
