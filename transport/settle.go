package transport

import (
	"context"

	"github.com/fleetpace/fleetpace/reserve"
)

// take waits for the turn of a call, which is kept if its costs are settled afterwards, or it
// holds slots.
func (t *Transport) take(ctx context.Context, c *call) (*reserve.Reservation, error) {
	if !c.slots && (t.config.Used == nil || !c.settles) {
		return nil, c.joint.Wait(ctx, c.Costs...)
	}
	return c.joint.Acquire(ctx, c.Costs...)
}

// used is what an attempt has used, and nil where its costs were right.
func (t *Transport) used(s sent, c *call) []int {
	if t.config.Used == nil {
		return nil
	}
	if !c.settles {
		t.unsettled.Do(func() {
			t.config.Logger.Warn("costs of a request cannot be settled, so Config.Used is not asked: set reserve.Config.Settles of its limit",
				"limit", c.joint.String())
		})
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
