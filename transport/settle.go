package transport

import (
	"context"
	"net/http"

	"github.com/fleetpace/fleetpace/reserve"
)

// take waits for the turn of a call. It returns the reservation if the call has slots to release or
// costs to settle, or may probe a hard stop.
func (t *Transport) take(ctx context.Context, c *call) (*reserve.Reservation, error) {
	if t.config.API == "" && !c.slots && (t.config.Used == nil && t.config.Tokens == nil || !c.settles) {
		return nil, c.joint.Wait(ctx, c.Costs...)
	}
	return c.joint.Acquire(ctx, c.Costs...)
}

// used returns how many permits an attempt has used, and nil if its costs were right.
func (t *Transport) used(s sent, c *call) []int {
	if t.config.Used == nil && t.config.Tokens == nil {
		return nil
	}
	if !c.settles {
		t.unsettled.Do(func() {
			t.config.Logger.Warn("transport: the costs of a request cannot be settled, so Config.Used and Config.Tokens are not called; set reserve.Config.Settles of its limit",
				"limit", c.joint.String())
		})
		return nil
	}
	if t.config.Used == nil {
		return nil // the end of the body says it
	}
	return t.config.Used(s.Response)
}

// settle corrects the cost of an attempt, and does not wait for that. A request that net/http repeated by itself keeps
// its estimated cost.
func (t *Transport) settle(s sent, used []int) {
	if used != nil {
		s.turn.SettleSoon(t.settled(used), used...)
	}
}

// estimate tells the limits what an attempt costs by what is known now.
func (t *Transport) estimate(request *http.Request, s sent) {
	if t.config.Estimate == nil || s.turn == nil {
		return
	}
	if costs := t.config.Estimate(request); costs != nil {
		s.turn.EstimateSoon(t.settled(costs), costs...)
	}
}

// settled returns what logs that a cost could not be settled.
func (t *Transport) settled(costs []int) func(error) {
	return func(err error) {
		if err != nil {
			t.config.Logger.Error("transport: the cost of a call could not be settled; its estimate stays",
				"used", costs, "error", err)
		}
	}
}
