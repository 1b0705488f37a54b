package reserve_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// longest is how long a call holds its slot, at the most.
const longest = 200 * time.Millisecond

// unheard is how long a call may wait for a slot that is free, where the message was lost that says so.
const unheard = 12 * time.Second

// hold makes a call that holds a slot for a while.
func (h *history) hold(ctx context.Context, j *reserve.Joint, c caller, random *rand.Rand) error {
	var r *reserve.Reservation
	var err error
	if c.verb == "reserve" {
		if r, err = j.Reserve(ctx); err == nil {
			time.Sleep(time.Duration(random.Float64() * float64(1500*time.Millisecond))) // some turns lapse
			err = h.use(ctx, r)
		}
	} else {
		r, err = j.Acquire(ctx)
	}
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.holding[r] = true
	now := 0
	for other := range h.holding {
		select {
		case <-other.Lost():
		default:
			now++
		}
	}
	if now > h.slots && h.policy != reserve.PolicyOpen {
		h.problem("at %v %d calls hold the %d slots", h.network.now(), now, h.slots)
	}
	h.mu.Unlock()
	time.Sleep(time.Duration(random.Float64() * float64(longest)))
	h.mu.Lock()
	delete(h.holding, r)
	h.mu.Unlock()
	r.Release()
	return nil
}

// allFree expects that nobody holds a slot, as nobody makes a call.
func (h *history) allFree(t *testing.T) {
	time.Sleep(settled)
	state, err := h.fleet[0].Limits()[0].State(t.Context())
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil || len(state.Holders) > 0 || state.Stored != float64(h.slots) {
		h.problem("in the end %d slots are held, %v of %d are free: %v, %v", len(state.Holders), state.Stored, h.slots, state.Holders, err)
	}
}

// slotsPlan is a history of a limit of slots. Nobody deletes single keys: what is held then is
// written nowhere.
func slotsPlan(seed uint64) *plan {
	p := newPlan(seed)
	p.slots = 1 + p.random("slots", 0).IntN(3)
	p.rate, p.burst = float64(p.slots)/longest.Seconds(), 1 // at the least, to know how long a queue takes
	for i := range p.troubles {
		if p.troubles[i].is(deleteState, deleteQueue) {
			p.troubles[i].what = flush
		}
	}
	return p
}

// Whatever goes wrong on the way to Redis and in it, no slot is held by two, and none is lost.
func TestSlotsFaultHistories(t *testing.T) {
	for seed := uint64(1); seed <= uint64(faultHistories(t)); seed++ {
		p := slotsPlan(seed)
		if h := play(t, p, bug{}); len(h.problems) > 0 {
			t.Errorf("seed %d, %d slots: %q\n%s", seed, p.slots, h.problems, p)
		}
	}
}
