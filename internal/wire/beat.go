package wire

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	scripts "github.com/fleetpace/fleetpace/lua"
)

// Heartbeat is what a process tells of itself under a name, about every second.
type Heartbeat struct {
	Client  redis.UniversalClient
	Channel string
	Process string
	Dead    time.Duration // whoever is silent for so long is dead
	Report  Report        // of what it does
}

// Pulse is what Redis says to a heartbeat.
type Pulse struct {
	Micros int64  // Redis's time
	Known  bool   // Redis knew the process
	Run    string // of the server; empty: not known
	Limit  string // that is in force: the slowest
}

// SignOff tells that the process needs a name no more: its limit does not count.
func SignOff(ctx context.Context, h Heartbeat, n *Name) error {
	h.Report.Ended = true
	_, err := run(ctx, h.Client, scripts.Beat, n.Keys, h.args(n, ""))
	return err
}

func (h *Heartbeat) args(n *Name, limit string) []any {
	return []any{"", h.Process, exact(n.Pace), limit, h.Dead.Microseconds(), h.Channel, h.Report.text()}
}

// Beat tells that the process lives, and notes what is in force under the name.
func Beat(ctx context.Context, h Heartbeat, n *Name) (Pulse, error) {
	values, err := run(ctx, h.Client, scripts.Beat, n.Keys, h.args(n, n.Limit))
	if err != nil {
		return Pulse{}, err
	}
	r := &reader{values: values}
	micros, known, alive, rank, limit, run := r.number(), r.number() == 1, r.number(), r.number(), r.text(), r.text()
	if r.err != nil {
		return Pulse{}, r.err
	}
	if limit != n.Limit {
		rank = 0
	}
	n.Rank.Store(rank)
	n.Alive.Store(alive)
	return Pulse{Micros: micros, Known: known, Run: run, Limit: limit}, nil
}
