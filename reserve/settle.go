package reserve

import (
	"context"
	"strings"

	"github.com/fleetpace/fleetpace/internal/engine"
	"github.com/fleetpace/fleetpace/internal/meter"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// Settle replaces the estimated cost of a call by its real cost at each limit, in the order of
// [All]. A cost of 0 means that no permit was used. A cost below 0 means that it is not known: the
// estimate stays. If the call used less than its estimate, waiting calls come sooner; if it used
// more, they come later. Calls that were already made are not affected.
//
// Settle may be called as soon as the cost at one limit is known, and again for the others, and again
// whenever the call has used more. So report a number that may still grow only if it is above the
// estimate: permits come back once for each limit. After that, only higher numbers count there.
//
// How much comes back depends on the kind of limit:
//
//   - paced: at most what a strict provider would still have in its bucket. Nothing comes back if
//     the bucket was full since, or if another limit was set. So set a burst of several times the
//     largest cost, and settle as soon as the call is over.
//   - quota: all of it, in the window of the call.
//   - rolling: all of it, unless 64 calls or more got their turns since: the script looks no further.
//   - warming up: nothing.
//
// Permits beyond the estimate always count. The shares of flows count what calls used in
// fact. [Reservation.Charged] tells what the limits have of the call.
//
// It returns an [ErrInvalid] if none of the limits has [Config.Settles], or if the turn has not come
// yet. After any other error Settle may be repeated, and counts once. It changes nothing for a call
// that was let through during an outage. Settle works after [Limiter.Close]. If the context ends first, Settle returns its
// error, and the report is sent nevertheless.
func (r *Reservation) Settle(ctx context.Context, used ...int) error {
	return failed("settle", r.joint, r.settle(ctx, used, false))
}

// Estimate replaces the estimated cost of a call that has its turn by a better one, and works like
// [Reservation.Settle]. When the real cost is settled, permits may come back again.
func (r *Reservation) Estimate(ctx context.Context, costs ...int) error {
	return failed("estimate", r.joint, r.settle(ctx, costs, true))
}

// SettleSoon is [Reservation.Settle] for a caller that does not wait, such as one that reads a stream and reports each
// total that it reads. It returns at once. The reports of a process for a group of limits share at most four trips to
// Redis a second; the first goes at once. A later report of a call replaces one that has not been sent.
// Then it calls done, if that is not nil, with the error that Settle would return. All reports of the group wait for
// done, so it must be quick, and must not call Settle, Estimate or Close. [Limiter.Close] sends what waits.
func (r *Reservation) SettleSoon(done func(error), used ...int) {
	r.settleSoon("settle", used, false, done)
}

// EstimateSoon is [Reservation.Estimate] for a caller that does not wait, as [Reservation.SettleSoon] is.
func (r *Reservation) EstimateSoon(done func(error), costs ...int) {
	r.settleSoon("estimate", costs, true, done)
}

// Charged returns how many permits each limit counts for the call, in the order of [All]: the cost that
// it waited with, until [Reservation.Settle] has changed it. The number is higher than what the
// call used if a limit could not give all of the rest back. If replies of Redis were lost, the limits may count more.
func (r *Reservation) Charged() []int {
	r.mu.Lock()
	charge := r.charge
	r.mu.Unlock()
	if charge == nil {
		charge = engine.NewCharge(&r.call.Need, "")
	}
	costs := r.process().Costs(charge)
	charged := make([]int, len(costs))
	for i, cost := range costs {
		charged[i] = int(cost)
	}
	return charged
}

// used checks what a call reports.
func (j *Joint) used(ctx context.Context, need *engine.Need, costs []int) ([]int64, error) {
	switch {
	case ctx == nil:
		return nil, invalid("ctx", "must not be nil")
	case !need.Settles:
		return nil, invalid("Config.Settles", "is not set for %q, so costs are no estimates", j)
	case len(costs) != len(j.limits):
		return nil, invalid("used", "must be one for each of the %d limits, got %d", len(j.limits), len(costs))
	}
	used := make([]int64, len(costs))
	for i, cost := range costs {
		if cost > maxBurst {
			return nil, invalid("used", "must be at most %d, got %d", maxBurst, cost)
		}
		used[i] = int64(cost)
	}
	return used, ctx.Err()
}

// CallID names the call in Redis once its turn was granted, so that any process settles it: see [Joint.SettleCall]. It is
// empty before that, and if the call was let through during an outage.
func (r *Reservation) CallID() string {
	return callID(r.view().Turn)
}

func callID(t *engine.Turn) string {
	if t == nil || t.Process == "" { // Redis knows nothing of it
		return ""
	}
	return wire.CallID(t.Process, t.Number)
}

// SettleCall is [Reservation.Settle] in any process. It is for the call of a [Reservation.CallID], which these limits
// have granted a turn at these costs. It counts once, as long as the numbers are the same. With an empty id it does
// nothing.
func (j *Joint) SettleCall(ctx context.Context, id string, costs, used []int) error {
	return failed("settle", j, j.settleCall(ctx, id, costs, used))
}

func (j *Joint) settleCall(ctx context.Context, id string, costs, used []int) error {
	need, err := j.needOfAny(ctx, costs, false)
	if err != nil {
		return err
	}
	is, err := j.used(ctx, &need, used)
	if err != nil || id == "" {
		return err
	}
	if process, number, _ := strings.Cut(id, ":"); process == "" || number == "" || strings.Trim(number, "0123456789") != "" {
		return invalid("id", "must be a CallID, got %q", id)
	}
	return j.settled(ctx, func(told func(error)) {
		j.process().Report(engine.NewCharge(&need, id), is, false, false, func(was []int64, err error) {
			if err == nil {
				j.count(nil, was, is)
			}
			told(err)
		})
	})
}

// settled waits for the outcome of a report, or for the end of the context.
func (j *Joint) settled(ctx context.Context, report func(told func(error))) error {
	outcome := make(chan error, 1)
	report(func(err error) { outcome <- err })
	select {
	case err := <-outcome:
		return j.shared().why(ctx, err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// count counts what a call has used beyond what it told before, and what it had reserved until it told that first.
// It returns what the call has told.
func (j *Joint) count(told, reserved, used []int64) []int64 {
	if told == nil {
		told = make([]int64, len(used))
		for i := range told {
			told[i] = -1
		}
	}
	for i, l := range j.limits {
		if used[i] < 0 {
			continue
		}
		if told[i] < 0 {
			told[i] = 0
			l.core.name.Meter.Add(meter.Reserved, reserved[i])
		}
		l.core.name.Meter.Add(meter.Settled, max(0, used[i]-told[i]))
		told[i] = max(told[i], used[i])
	}
	return told
}

func (r *Reservation) settle(ctx context.Context, costs []int, again bool) error {
	used, err := r.joint.used(ctx, &r.call.Need, costs)
	if err != nil {
		return err
	}
	charge, err := r.charged()
	if err != nil {
		return err
	}
	return r.joint.settled(ctx, func(told func(error)) { r.report(charge, used, again, false, told) })
}

func (r *Reservation) settleSoon(op string, costs []int, again bool, done func(error)) {
	told := func(err error) {
		if done != nil {
			done(failed(op, r.joint, r.joint.shared().why(context.Background(), err)))
		}
	}
	used, err := r.joint.used(context.Background(), &r.call.Need, costs)
	var charge *engine.Charge
	if err == nil {
		charge, err = r.charged()
	}
	if err != nil {
		told(err)
		return
	}
	r.report(charge, used, again, true, told)
}

// report tells Redis what the call has used.
func (r *Reservation) report(charge *engine.Charge, used []int64, again, soon bool, told func(error)) {
	r.process().Report(charge, used, again, soon, func(was []int64, err error) {
		if err == nil && !again {
			r.mu.Lock()
			r.told = r.joint.count(r.told, was, used)
			r.mu.Unlock()
		}
		told(err)
	})
}

// charged returns what the limits count for the turn, for a report of its real cost. A turn that was granted and has
// come counts as used, because its holder may have waited for it without Wait.
func (r *Reservation) charged() (*engine.Charge, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var turn *engine.Turn
	if !r.waiting {
		turn = r.process().Take(r.call)
	}
	if turn == nil {
		return nil, r.invalid("has not had its turn")
	}
	if r.charge == nil {
		r.charge = engine.NewCharge(&r.call.Need, callID(turn))
	}
	r.settled = true
	return r.charge, nil
}
