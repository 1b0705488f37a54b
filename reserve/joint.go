package reserve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/internal/engine"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// maxJoint is how many limits one call may need.
const maxJoint = 8

// A Joint gives calls their turns under several limits at once, such as requests and tokens, per
// second and per day, or tenant and account. A call gets the permits of all limits, or of none, in
// one atomic step.
//
// A call waits at the limit where its turn comes last, and takes nothing from the other limits
// until then. So a tenant with an hour of backlog does not hold up the tenants with whom it shares
// an account.
//
// The limits of a Joint still serve calls that need only one of them. A Joint is cheap and has no
// state: make one for each use if the keys vary. A Joint of a single limit behaves like that limit.
// It is safe for concurrent use.
type Joint struct {
	limits []*Limiter
	leaves bool // see Leaving
}

// All makes a Joint of one to eight different limits. All of them must have the same client,
// [Config.Prefix] and [Config.Outage]. They must also have the same [Config.Group], unless they are
// keys of one Limiter. A call has one flow: if one limit names it with [Limiter.Flow], the others
// need not. The error is an [ErrInvalid] that says which limit does not fit, or an [ErrClosed].
func All(limits ...*Limiter) (*Joint, error) {
	j := &Joint{limits: slices.Clone(limits)}
	err := j.validate()
	if err == nil {
		err = j.agree()
	}
	if err != nil {
		return nil, failed("all", j, err)
	}
	return j, nil
}

func (j *Joint) validate() error {
	if len(j.limits) < 1 || len(j.limits) > maxJoint {
		return invalid("limits", "must be from 1 to %d, got %d", maxJoint, len(j.limits))
	}
	if slices.Contains(j.limits, nil) {
		return invalid("limits", "must not be nil")
	}
	for i, l := range j.limits {
		if l.err != nil {
			return l.err
		}
		if err := l.fits(j.limits[0]); err != nil {
			return err
		}
		for _, other := range j.limits[:i] {
			if other.core.cfg.Name == l.core.cfg.Name && other.key == l.key {
				return invalid("limits", "must be different: %q is there twice", l)
			}
		}
	}
	return nil
}

// fits says why a call cannot need this limit together with another one; nil: it can.
func (l *Limiter) fits(other *Limiter) error {
	c, o := l.core, other.core
	switch {
	case c.shared == o.shared:
		return nil
	case c.client != o.client:
		return invalid("limits", "must be made with the same client: %q is not, as %q", l, other)
	case c.cfg.Prefix != o.cfg.Prefix:
		return invalid("limits", "must have the same prefix: %q has %q, and %q %q", l, c.cfg.Prefix, other, o.cfg.Prefix)
	case c.cfg.Group != o.cfg.Group || c.cfg.Group == "":
		return invalid("limits", "must have the same Config.Group, which is not empty: %q has %q, and %q %q",
			l, c.cfg.Group, other, o.cfg.Group)
	case c.cfg.Outage != o.cfg.Outage:
		return invalid("limits", "must have the same Config.Outage: %q has %+v, and %q %+v", l, c.cfg.Outage, other, o.cfg.Outage)
	default: // the group was closed with the first limit, before the other was made
		return ErrClosed
	}
}

// Limits returns the limits that the Joint was made of, in their order.
func (j *Joint) Limits() []*Limiter { return slices.Clone(j.limits) }

// String returns the names of the limits, with " + " between them.
func (j *Joint) String() string {
	names := make([]string, len(j.limits))
	for i, l := range j.limits {
		if l != nil {
			names[i] = l.String()
		}
	}
	return strings.Join(names, " + ")
}

// Wait blocks until the call has its turn: a nil error means call now. The costs are permits of
// each limit, in the order of [All]. Without costs, the call takes one permit of each limit.
//
// It works like [Limiter.WaitN]: a turn after the context's deadline is not taken, and the errors
// are the same. Closing one of the limits ends the wait with [ErrClosed].
func (j *Joint) Wait(ctx context.Context, costs ...int) error {
	return failed("wait", j, j.wait(ctx, costs, false))
}

// Allow reports whether a call may be made right now, and if so takes its turn at all limits. It
// does not wait for a turn, but it does wait for Redis. Costs are as in [Joint.Wait], and errors as
// in [Limiter.AllowN].
func (j *Joint) Allow(ctx context.Context, costs ...int) (bool, error) {
	allowed, err := allows(j.wait(ctx, costs, true))
	return allowed, failed("allow", j, err)
}

func (j *Joint) wait(ctx context.Context, costs []int, now bool) error {
	need, err := j.need(ctx, costs)
	if err != nil {
		return err
	}
	if err := j.needsNoRelease(); err != nil {
		return err
	}
	return j.costsIn(j.shared().wait(ctx, &need, now, j.limits...), &need)
}

// Reserve joins the queue for a call without waiting for its turn, for example to settle its cost
// later. Costs are as in [Joint.Wait]. The context is for the round trip only. Errors are those of
// [Limiter.ReserveN].
func (j *Joint) Reserve(ctx context.Context, costs ...int) (*Reservation, error) {
	need, err := j.need(ctx, costs)
	var r *Reservation
	if err == nil {
		r, err = j.hold(ctx, need, time.Time{})
	}
	return r, failed("reserve", j, err)
}

func (j *Joint) hold(ctx context.Context, need engine.Need, deadline time.Time) (*Reservation, error) {
	call, err := j.process().Hold(ctx, need, deadline)
	if err != nil {
		err = j.costsIn(j.shared().why(ctx, err), &need)
		ended(ctx, &need, 0, err, j.limits...)
		return nil, err
	}
	return &Reservation{joint: j, call: call}, nil
}

// need returns what a call needs, after checking it.
func (j *Joint) need(ctx context.Context, costs []int) (engine.Need, error) {
	need, err := j.needOfAny(ctx, costs, true)
	if err != nil {
		return need, err
	}
	return need, j.open(ctx)
}

// ready checks the limits for a verb that makes no new call.
func (j *Joint) ready(ctx context.Context) error {
	if _, err := j.needOfAny(ctx, nil, false); err != nil {
		return err
	}
	return j.open(ctx)
}

// open checks that no limit was closed, and that the context has not ended.
func (j *Joint) open(ctx context.Context) error {
	for _, l := range j.limits {
		if l.core.closed.Load() {
			return ErrClosed
		}
	}
	return ctx.Err()
}

// costName returns the caller's name for the cost of the limit at an index.
func (j *Joint) costName(i int) string {
	if len(j.limits) == 1 {
		return "n"
	}
	return fmt.Sprintf("costs[%d]", i)
}

// needOfAny is need for limits that may be closed. If it is not for a new call, the plan of a key does
// not matter: it may have changed since the call was made.
func (j *Joint) needOfAny(ctx context.Context, costs []int, isNew bool) (need engine.Need, err error) {
	need.Flow, need.Leaves = j.limits[0].flow, j.leaves
	if len(costs) != 0 && len(costs) != len(j.limits) {
		return need, invalid("costs", "must be none, or one for each of the %d limits, got %d", len(j.limits), len(costs))
	}
	for i, l := range j.limits {
		cost := 1
		if len(costs) > 0 {
			cost = costs[i]
		}
		if err := l.usable(ctx); err != nil {
			return need, err
		}
		if err := l.checkCost(j.costName(i), cost, isNew); err != nil {
			return need, err
		}
		part := engine.Part{Limit: l.limit, Cost: int64(cost)}
		if i == 0 {
			need.Part = part
		} else {
			need.More = append(need.More, part)
		}
		need.Settles, need.Stays = need.Settles || l.core.cfg.Settles, need.Stays || l.stays
	}
	return need, nil
}

// costsIn is costIn for the costs of all limits.
func (j *Joint) costsIn(err error, need *engine.Need) error {
	if err == nil || !errors.Is(err, ErrExceedsBurst) {
		return err
	}
	for i, p := range need.Parts() {
		if own := j.limits[i].costIn(err, j.costName(i), int(p.Cost)); own != err { //nolint:errorlint // it is the same or another one
			return own
		}
	}
	return err
}

// shared returns what all limits share.
func (j *Joint) shared() *shared { return j.limits[0].core.shared }

func (j *Joint) process() *engine.Process { return j.shared().process }

// all returns the limits as the engine knows them.
func (j *Joint) all() []*wire.Limit {
	all := make([]*wire.Limit, len(j.limits))
	for i, l := range j.limits {
		all[i] = l.limit
	}
	return all
}
