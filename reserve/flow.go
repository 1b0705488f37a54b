package reserve

import (
	"cmp"
	"fmt"
	"math"

	"github.com/fleetpace/fleetpace/internal/wire"
)

const (
	longestFlow = 256 // bytes
	leastWeight = 1e-6
	mostWeight  = 1e6

	// The part of a limit that all urgent calls together may use.
	leastUrgent, defaultUrgent, mostUrgent = 0.01, 0.5, 0.99
)

// Flow returns the same limit for the calls of one flow: one of the tenants, accounts, queues or
// hosts that share the limit. Each flow with waiting calls gets its turns by its weight, however
// many calls of other flows wait. A flow that enqueues 100,000 calls delays only its own calls.
// Within a flow, calls get their turns first come, first served.
//
// Calls that name no flow form one flow of weight 1. A flow without waiting calls costs nothing.
// When no call waits at all, the shares start anew.
//
// The name is 1 to 256 bytes of any kind; with any other name, calls fail with [ErrInvalid]. Flow
// is cheap: call it for each use. The algorithm is start-time fair queueing (Goyal, Vin and Cheng,
// SIGCOMM 1996).
func (l *Limiter) Flow(name string) *Limiter {
	if len(name) < 1 || len(name) > longestFlow {
		return l.with(l.flow, invalid("flow", "must have 1 to %d bytes, got %d", longestFlow, len(name)))
	}
	return l.with(wire.Flow{Name: name, Weight: l.flow.Weight, Urgent: l.flow.Urgent}, nil)
}

// Weight returns the same limit for calls whose flow has this weight, from 0.000001 to 1,000,000;
// with any other weight, calls fail with [ErrInvalid]. The default is 1. While both wait, a flow of
// weight 3 gets three permits for each permit of a flow of weight 1. Give all calls of a flow the
// same weight.
func (l *Limiter) Weight(weight float64) *Limiter {
	if math.IsNaN(weight) || weight < leastWeight || weight > mostWeight {
		return l.with(l.flow, invalid("weight", "must be from %v to %v, got %v", leastWeight, float64(mostWeight), weight))
	}
	return l.with(wire.Flow{Name: l.flow.Name, Weight: weight, Urgent: l.flow.Urgent}, nil)
}

// Urgent returns the same limit for calls that go ahead of all other waiting calls, for example
// because a person waits for them. While others wait, urgent calls of all flows together get at
// most the part of the limit in [Config.Urgent], so nobody starves.
func (l *Limiter) Urgent() *Limiter {
	part := cmp.Or(l.core.cfg.Urgent, defaultUrgent)
	return l.with(wire.Flow{Name: l.flow.Name, Weight: l.flow.Weight, Urgent: part}, nil)
}

// with returns the limit for calls of a flow. An earlier error stays.
func (l *Limiter) with(flow wire.Flow, err error) *Limiter {
	of := *l
	of.flow = flow
	of.flow.Weight = cmp.Or(flow.Weight, 1)
	if of.err == nil {
		of.err = err
	}
	return &of
}

// Flow is [Limiter.Flow] for all limits of the Joint.
func (j *Joint) Flow(name string) *Joint {
	return j.each(func(l *Limiter) *Limiter { return l.Flow(name) })
}

// Weight is [Limiter.Weight] for all limits of the Joint.
func (j *Joint) Weight(weight float64) *Joint {
	return j.each(func(l *Limiter) *Limiter { return l.Weight(weight) })
}

// Urgent is [Limiter.Urgent] for all limits of the Joint.
func (j *Joint) Urgent() *Joint { return j.each((*Limiter).Urgent) }

func (j *Joint) each(of func(*Limiter) *Limiter) *Joint {
	limits := make([]*Limiter, len(j.limits))
	for i, l := range j.limits {
		limits[i] = of(l)
	}
	return &Joint{limits, j.leaves}
}

// textOf describes a flow for people.
func textOf(f wire.Flow) string {
	text := fmt.Sprintf("flow %q of weight %v", f.Name, f.Weight)
	if f.Urgent > 0 {
		text += ", urgent"
	}
	return text
}

// agree sets the flow that some limits name at all limits, because a call has one flow.
func (j *Joint) agree() error {
	var flow wire.Flow
	for _, l := range j.limits {
		switch {
		case l.flow == wire.Flow{}, l.flow == flow:
		case flow == wire.Flow{}:
			flow = l.flow
		default:
			return invalid("limits", "must be for calls of one flow: %q is for %s, and another for %s", l, textOf(l.flow), textOf(flow))
		}
	}
	for i, l := range j.limits {
		if l.flow != flow {
			j.limits[i] = l.with(flow, nil)
		}
	}
	return nil
}
