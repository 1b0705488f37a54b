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

	// The part of a limit that urgent calls have together.
	leastUrgent, defaultUrgent, mostUrgent = 0.01, 0.5, 0.99
)

// Flow returns the same limit for the calls of one flow: a tenant, an account, a queue or a host
// of those that share the limit. Where calls wait, each flow has its turns by its weight, however
// many calls of others wait. A flow that enqueues 100,000 calls holds up nobody but itself. Within
// a flow calls have their turns first come, first served.
//
// Calls that name no flow are a flow together, of weight 1. A flow without waiting calls costs
// nothing. When no call waits at all, what each flow has had is forgotten.
//
// The name is 1 to 256 bytes of any kind; with any other name, calls fail with [ErrInvalid]. Flow
// is cheap: call it for each use. Shares are those of start-time fair queueing (Goyal, Vin and
// Cheng, SIGCOMM 1996).
func (l *Limiter) Flow(name string) *Limiter {
	if len(name) < 1 || len(name) > longestFlow {
		return l.with(l.flow, invalid("flow", "must have 1 to %d bytes, got %d", longestFlow, len(name)))
	}
	return l.with(wire.Flow{Name: name, Weight: l.flow.Weight, Urgent: l.flow.Urgent}, nil)
}

// Weight returns the same limit for calls whose flow has this weight, from 0.000001 to 1,000,000;
// with any other weight, calls fail with [ErrInvalid]. The default is 1. While both wait, a flow
// of weight 3 has three permits for each one of a flow of weight 1. Give all calls of a flow the
// same weight.
func (l *Limiter) Weight(weight float64) *Limiter {
	if math.IsNaN(weight) || weight < leastWeight || weight > mostWeight {
		return l.with(l.flow, invalid("weight", "must be from %v to %v, got %v", leastWeight, float64(mostWeight), weight))
	}
	return l.with(wire.Flow{Name: l.flow.Name, Weight: weight, Urgent: l.flow.Urgent}, nil)
}

// Urgent returns the same limit for calls that go before all others that wait, because a person
// waits for them, say. While others wait, urgent calls of all flows together have at most the part
// of the limit that [Config.Urgent] says, so nobody starves.
func (l *Limiter) Urgent() *Limiter {
	part := cmp.Or(l.core.cfg.Urgent, defaultUrgent)
	return l.with(wire.Flow{Name: l.flow.Name, Weight: l.flow.Weight, Urgent: part}, nil)
}

// with returns the limit for calls of a flow. What was wrong before stays so.
func (l *Limiter) with(flow wire.Flow, err error) *Limiter {
	of := *l
	of.flow = flow
	of.flow.Weight = cmp.Or(flow.Weight, 1)
	if of.err == nil {
		of.err = err
	}
	return &of
}

// Flow is [Limiter.Flow] at all limits of the Joint.
func (j *Joint) Flow(name string) *Joint {
	return j.each(func(l *Limiter) *Limiter { return l.Flow(name) })
}

// Weight is [Limiter.Weight] at all limits of the Joint.
func (j *Joint) Weight(weight float64) *Joint {
	return j.each(func(l *Limiter) *Limiter { return l.Weight(weight) })
}

// Urgent is [Limiter.Urgent] at all limits of the Joint.
func (j *Joint) Urgent() *Joint { return j.each((*Limiter).Urgent) }

func (j *Joint) each(of func(*Limiter) *Limiter) *Joint {
	limits := make([]*Limiter, len(j.limits))
	for i, l := range j.limits {
		limits[i] = of(l)
	}
	return &Joint{limits: limits}
}

// textOf is a flow for people.
func textOf(f wire.Flow) string {
	text := fmt.Sprintf("flow %q of weight %v", f.Name, f.Weight)
	if f.Urgent > 0 {
		text += ", urgent"
	}
	return text
}

// agree lets all limits serve the flow that some of them name: a call is of one.
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
