package wire

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/fault"
	scripts "github.com/fleetpace/fleetpace/lua/queue"
)

// Heartbeat is what a process tells of itself, about every second.
type Heartbeat struct {
	Client  redis.Scripter
	Keys    []string // as queue.BeatKeys returns them
	Channel string
	Process string
	Pace    float64       // of its limit, permits per second: what slower means
	Limit   string        // its text
	Dead    time.Duration // whoever is silent for so long is dead
}

// Pulse is what Redis says to a heartbeat.
type Pulse struct {
	Known bool   // Redis knew the process
	Alive int64  // processes
	Rank  int64  // of the limit that is in force …
	Limit string // … and its text
	Run   string // of the server; empty: not known
}

// Beat tells that the process lives.
func Beat(ctx context.Context, h Heartbeat) (Pulse, error) {
	values, err := scripts.Beat.Run(ctx, h.Client, h.Keys, "", h.Process, exact(h.Pace), h.Limit, h.Dead.Microseconds(), h.Channel).Slice()
	if err != nil {
		return Pulse{}, fault.Classify(err)
	}
	r := &reader{values: values}
	r.number()
	p := Pulse{Known: r.number() == 1, Alive: r.number(), Rank: r.number(), Limit: r.text(), Run: r.text()}
	return p, r.err
}
