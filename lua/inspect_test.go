package lua

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// looks looks at all limits of a history as an observer does: nothing may be written.
func (h *history) looks(inspect *redis.Script) error {
	p := h.processes[0]
	who := queuemodel.Caller{Now: h.now(), Way: p.way, Horizon: 250000, Run: fmt.Sprint("run", h.run), Process: "observer", Serial: 1}
	for _, limits := range [][]queuemodel.Limit{h.known(p), h.strange(p)} {
		v, err := inspect.RunRO(h.server.ctx, h.server.client, h.keys, headArgs(who, limits)...).Slice()
		if err != nil {
			return err
		}
		for j := range limits {
			if problem := v[4+4*j]; problem != "" {
				return fmt.Errorf("limit %d: %v", j, problem)
			}
		}
	}
	return nil
}

// strange is what a caller knows who looks for the first time, and names the last ask of each limit.
func (h *history) strange(p *process) []queuemodel.Limit {
	limits := h.known(p)
	for j := range limits {
		limits[j].Known, limits[j].Version, limits[j].Reach, limits[j].Clock = "", 0, nil, 0
		last := strings.Fields(h.server.client.(*redis.Client).HGet(h.server.ctx, h.keys[6*j], "last").Val())
		if len(last) > 1 {
			limits[j].Back = last[0] + " " + last[1]
		}
	}
	return limits
}

// observed plays a history, and looks after each step.
func observed(seed uint64, client *redis.Client, prefix string, inspect *redis.Script) error {
	h := newHistory(seed, client, prefix, nil)
	h.alone = true
	defer client.Del(h.server.ctx, h.keys...)
	for range steps {
		if err := h.step(); err != nil {
			return fmt.Errorf("step: %w", err)
		}
		if err := h.looks(inspect); err != nil {
			return err
		}
	}
	return nil
}

// Inspect runs where no script may write, whatever the state: with dead holders of slots, bookings
// that are late, entries that left their window, and what is left of a state that was lost.
func TestInspectOnlyLooks(t *testing.T) {
	client, prefix := redistest.New(t).Client(t), redistest.Prefix(t)
	for i := range max(10, histories(t)/3) {
		for _, seed := range []uint64{i, slotSeeds + i} {
			require.NoError(t, observed(seed, client, fmt.Sprint(prefix, seed), Inspect), "seed %d", seed)
		}
	}
}

// That test finds each write that inspect could make.
func TestInspectThatWritesIsFound(t *testing.T) {
	client, prefix := redistest.New(t).Client(t), redistest.Prefix(t)
	const most = 100
	for name, first := range map[string]uint64{"UNLINK": 0, "ZADD": 0, "ZREM": slotSeeds} {
		text, listed := texts["inspect"], fmt.Sprintf(" %s = true", name)
		require.Equal(t, 1, strings.Count(text, listed), name)
		script, found := redis.NewScript(strings.Replace(text, listed, fmt.Sprintf(" %sx = true", name), 1)), error(nil)
		for seed := first; seed < first+most && found == nil; seed++ {
			found = observed(seed, client, fmt.Sprint(prefix, seed), script)
		}
		require.ErrorContains(t, found, "ot allowed from read-only", name)
	}
}
