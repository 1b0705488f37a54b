package lua

import "github.com/fleetpace/fleetpace/internal/model"

// setLimit sets a limit for all callers, or ends one that is set. Everybody hears of it.
func (h *history) setLimit() {
	p, _ := h.ready()
	var to model.Limit
	var micros float64
	if h.rng.IntN(4) > 0 {
		to = model.Limit{IntervalMicros: h.interval(), Burst: 1 + h.rng.Int64N(20)}
	}
	if h.rng.IntN(2) == 0 {
		micros = h.limit.IntervalMicros * 30 * h.rng.Float64()
	}
	h.maxBurst = max(h.maxBurst, to.Burst)
	h.counts["sets"]++
	h.send(false, &message{from: p, run: func(_ *message, c model.Caller) (model.Reply, func(bool)) {
		return h.player.set(h.clock(), h.limit, c, to, micros), func(bool) {}
	}})
}

// noteLimit takes in which limit is in force. When that ends which was set, the next call
// finds it, and all hear of it.
func (h *history) noteLimit(reply model.Reply) {
	if reply.Limit.IntervalMicros == 0 {
		return // a quick does not tell: it finds no other limit
	}
	if last := h.rates[len(h.rates)-1]; last.intervalMicros != reply.Limit.IntervalMicros {
		h.rates = append(h.rates, rate{h.now, reply.Limit.IntervalMicros})
	}
	if gen, known := h.gens[reply.Epoch]; known && reply.Gen > gen {
		h.counts["limits_moved"]++
		h.hear(reply, func() bool { return true })
	}
	h.gens[reply.Epoch] = reply.Gen
}
