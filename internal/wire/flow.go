package wire

import "strconv"

// Flow is those whose calls have a share of a limit together: a tenant, an account, a queue.
// The zero Flow is none.
type Flow struct {
	Name   string
	Weight float64 // from 1e-6 to 1e6; calls that name no flow have 1 together
	Urgent float64 // the part of the limit that urgent calls have together, below 1; 0: it is none
}

// append appends what an item says of its flow.
func (f *Flow) append(args []any) []any {
	if f.Weight == 0 {
		return args
	}
	return append(args, exact(f.Weight), exact(f.Urgent), f.Name)
}

// size is what a place says of its cost, and whose it is.
func (f *Flow) size(cost int64) any {
	if f.Weight == 0 {
		return cost
	}
	weight := f.Weight
	if f.Urgent > 0 {
		weight = 0
	}
	return strconv.FormatInt(cost, 10) + ":" + exact(weight) + ":" + f.Name
}
