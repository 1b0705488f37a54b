package transport

import (
	"context"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// take waits for the turn of a call, which is kept if its costs are settled afterwards.
func (t *Transport) take(ctx context.Context, c *call) (*reserve.Reservation, error) {
	if t.config.Used == nil || !c.settles {
		return nil, c.joint.Wait(ctx, c.Costs...)
	}
	turn, err := c.joint.Reserve(ctx, c.Costs...)
	if err != nil {
		return nil, err
	}
	deadline, ok := ctx.Deadline()
	if ok && turn.Due().After(deadline) {
		err = &reserve.Error{
			Op: "wait", Key: c.joint.String(), Wait: turn.Delay(), Left: max(0, time.Until(deadline)), Err: reserve.ErrWouldMissDeadline,
		}
	} else {
		err = turn.Wait(ctx)
	}
	if err != nil {
		_ = turn.Cancel(context.WithoutCancel(ctx)) // it asks nobody
		return nil, err
	}
	return turn, nil
}

// used is what an attempt has used, and nil where its costs were right.
func (t *Transport) used(s sent) []int {
	if s.turn == nil {
		return nil
	}
	return t.config.Used(s.Response)
}

// settle tells the limits what an attempt has used. What net/http sent again by itself costs
// what it was estimated.
func (t *Transport) settle(ctx context.Context, s sent, used []int) {
	if used == nil {
		return
	}
	if err := s.turn.Settle(ctx, used...); err != nil {
		t.config.Logger.Error("the limiter does not know what a call has used: its cost stays as it was estimated",
			"used", used, "error", err)
	}
}
