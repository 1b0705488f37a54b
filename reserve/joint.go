package reserve

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// maxJoint is how many limits one call may need.
const maxJoint = 8

// A Joint gives calls their turns under several limits at once, such as requests and
// tokens, per second and per day, or tenant and account. A call has its turn when all of
// them let it through: it gets the permits of all, or of none, in one atomic step.
//
// A call waits where its turn comes last, and takes nothing from the other limits until
// then. So a tenant with an hour of backlog does not hold up those with whom it shares an
// account: its calls come to the shared limit when their own turns have come.
//
// Limits of a Joint go on serving calls that need one of them only. Each call of a Joint
// makes trips to Redis of its own, one or two; calls of a single paced limit share theirs.
// A Joint is cheap and keeps nothing: make one for each use where the keys vary. It is
// safe for concurrent use.
type Joint struct {
	limits []*Limiter
}

// All makes a Joint of one to eight different limits. They must be made with the same
// client and prefix, and, unless they are keys of one Limiter, with the same Config.Group;
// and agree on the policy of Config.Outage. The smallest Config.InlineBound counts. The
// error is an [ErrInvalid] that says which limit does not fit.
func All(limits ...*Limiter) (*Joint, error) {
	j := &Joint{limits: slices.Clone(limits)}
	if err := j.validate(); err != nil {
		return nil, &Error{Op: "all", Key: j.String(), Err: err}
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
	first := j.limits[0].core
	for i, l := range j.limits {
		c := l.core
		switch {
		case l.err != nil:
			return l.err
		case c.client != first.client:
			return invalid("limits", "must be made with the same client: %q is not, as %q", l, j.limits[0])
		case c.cfg.Prefix != first.cfg.Prefix:
			return invalid("limits", "must have the same prefix: %q has %q, and %q %q", l, c.cfg.Prefix, j.limits[0], first.cfg.Prefix)
		case c != first && (c.cfg.Group != first.cfg.Group || c.cfg.Group == ""):
			return invalid("limits", "must have the same Config.Group, which is not empty: %q has %q, and %q %q",
				l, c.cfg.Group, j.limits[0], first.cfg.Group)
		case c.cfg.Outage.Policy != first.cfg.Outage.Policy:
			return invalid("limits", "must have the same policy: %q has %q, and %q %q",
				l, c.cfg.Outage.Policy, j.limits[0], first.cfg.Outage.Policy)
		}
		for _, other := range j.limits[:i] {
			if other.core.cfg.Name == c.cfg.Name && other.key == l.key {
				return invalid("limits", "must be different: %q is there twice", l)
			}
		}
	}
	return nil
}

// String is the names of the limits.
func (j *Joint) String() string {
	names := make([]string, len(j.limits))
	for i, l := range j.limits {
		if l != nil {
			names[i] = l.String()
		}
	}
	return strings.Join(names, " + ")
}

// Wait blocks until the call has its turn: return nil means call now. The costs are permits
// of each limit, in the order of [All]; without any, the call costs one permit of each.
//
// It is as [Limiter.WaitN] is: a turn that would come after the context's deadline is not
// taken, and where the context ends, all that was taken goes back. The text of
// [ErrWouldMissDeadline] says which limit holds the call back. Closing one of the limits ends
// the wait with [ErrClosed].
func (j *Joint) Wait(ctx context.Context, costs ...int) error {
	return j.fail("wait", j.wait(ctx, costs))
}

func (j *Joint) wait(ctx context.Context, costs []int) error {
	r, err := j.reserve(ctx, costs)
	if err != nil {
		return err
	}
	lines, leave, err := j.enter()
	if err != nil {
		return err
	}
	defer leave()
	deadline, _ := ctx.Deadline()
	r.call.deadline = deadline
	if err := r.call.wait(ctx, lines); err != nil {
		r.call.leaveSoon(lines)
		return err
	}
	return nil
}

// Allow reports whether a call may be made right now, and if so takes its turn in all
// limits. It never waits for a turn; it does wait for Redis.
func (j *Joint) Allow(ctx context.Context, costs ...int) (bool, error) {
	allowed, err := j.allow(ctx, costs)
	return allowed, j.fail("allow", err)
}

// Reserve stands in line for a call without waiting for its turn, for calls whose costs are
// settled later, for example. The context is for the round trip only.
func (j *Joint) Reserve(ctx context.Context, costs ...int) (*JointReservation, error) {
	r, err := j.reserve(ctx, costs)
	if err == nil {
		r.call.settles = true
		err = r.call.stand(ctx)
	}
	if err != nil {
		return nil, j.fail("reserve", err)
	}
	return r, nil
}

func (j *Joint) reserve(ctx context.Context, costs []int) (*JointReservation, error) {
	checked, err := j.check(costs)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return &JointReservation{call: newGuest(j, checked)}, nil
}

// check returns the costs, one for each limit.
func (j *Joint) check(costs []int) ([]int64, error) {
	if len(costs) != 0 && len(costs) != len(j.limits) {
		return nil, invalid("costs", "must be none, or one for each of the %d limits, got %d", len(j.limits), len(costs))
	}
	checked := make([]int64, len(j.limits))
	for i, l := range j.limits {
		if l.err != nil {
			return nil, l.err
		}
		checked[i] = 1
		if len(costs) > 0 {
			checked[i] = int64(costs[i])
		}
		if err := l.core.cfg.validateCost(int(checked[i])); err != nil {
			return nil, err
		}
	}
	return checked, nil
}

func (j *Joint) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	var typed *Error
	if errors.As(err, &typed) {
		return err
	}
	return newError(op, j.String(), err)
}

// paced reports whether the limit is a line, which knows more than [Wait] and [Allow].
func (l *Limiter) paced() bool { return l.core.cfg.Limit.kind == KindPaced }

// solo is the Joint of a limit that is not paced.
func (l *Limiter) solo() *Joint { return &Joint{limits: []*Limiter{l}} }

func (l *Limiter) unpaced() error {
	return invalid("Limit", "of kind %v serves Wait, Allow and All only", l.core.cfg.Limit.kind)
}

// heldBackError is a turn that would come too late, and the limit that makes it so.
type heldBackError struct {
	missed
	limit *Limiter
}

func (h *heldBackError) Error() string {
	return h.missed.Error() + ", held back by \"" + h.limit.String() + "\""
}
func (h *heldBackError) Unwrap() error { return &h.missed }
