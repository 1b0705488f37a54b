package lua

import (
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
)

type saved struct {
	model  *queuemodel.Redis
	hashes map[string]map[string]string
	sets   map[string][]redis.Z
}

// void drops turns that were not used and are due before a moment, as news say; their calls ask again.
func (h *history) void(limit int, before float64) {
	for _, p := range h.processes {
		p.turns = slices.DeleteFunc(p.turns, func(t *turn) bool {
			if t.used || t.from >= before || !t.needs(limit) {
				return false
			}
			t.back, t.retry = "", h.real
			p.waiting = append(p.waiting, t.call)
			return true
		})
	}
}

// shorten lets turns of a limit be used when they are due, and no later, after it has become another one.
func (h *history) shorten(limit int) {
	for _, p := range h.processes {
		for _, t := range p.turns {
			if t.needs(limit) {
				t.until = min(t.until, max(t.from, h.real))
			}
		}
	}
}

func (t *turn) needs(limit int) bool {
	return slices.ContainsFunc(t.parts, func(part queuemodel.Part) bool { return part.Limit == limit })
}

// loses deletes all that Redis holds, or the hashes alone: what they stand for is lost, too.
func (h *history) loses() error {
	h.counts["lost"]++
	h.suspect()
	h.model.Limits = map[int]*queuemodel.State{}
	gone := h.keys
	if h.pick(3) {
		gone = nil
		for j := range h.limits {
			gone = append(gone, h.keys[6*j])
		}
	}
	defer h.beat()
	return h.server.client.(*redis.Client).Del(h.server.ctx, gone...).Err()
}

// suspect lets all processes know by their heartbeats that data was lost.
func (h *history) suspect() {
	for _, p := range h.processes {
		for j := range p.memory {
			p.memory[j].lost = true
		}
	}
	h.keepBy = h.real + 1.2e6
}

// rollsBack brings back what Redis held some time ago, as a replica that lags does.
func (h *history) rollsBack() error {
	client, ctx := h.server.client.(*redis.Client), h.server.ctx
	if h.saved == nil {
		h.saved = &saved{h.model.Copy(), map[string]map[string]string{}, map[string][]redis.Z{}}
		for i, key := range h.keys {
			if i%6 == 0 {
				h.saved.hashes[key] = client.HGetAll(ctx, key).Val()
			} else {
				h.saved.sets[key] = client.ZRangeWithScores(ctx, key, 0, -1).Val()
			}
		}
		return nil
	}
	h.counts["rollback"]++
	h.suspect()
	if err := client.Del(ctx, h.keys...).Err(); err != nil {
		return err
	}
	for key, hash := range h.saved.hashes {
		if len(hash) > 0 {
			client.HSet(ctx, key, hash)
		}
	}
	for key, set := range h.saved.sets {
		if len(set) > 0 {
			client.ZAdd(ctx, key, set...)
		}
	}
	h.model, h.saved = h.saved.model, nil
	if h.pick(4) { // a server that says nothing of it; only who has seen more can tell
		h.counts["silent"]++
	} else {
		h.run++
	}
	return nil
}
