package wire

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	scripts "github.com/fleetpace/fleetpace/lua"
)

// Heartbeat says that a process lives, about every second, and what it tells under some names.
type Heartbeat struct {
	Client  redis.UniversalClient
	Channel string
	Process string
	Dead    time.Duration // whoever is silent for so long is dead
	Life    []string      // Name.Life of all of its names
	Ends    bool          // the process needs no name any more

	Names []Told
}

// Told is what a process tells under a name.
type Told struct {
	Name   *Name
	Ends   bool   // the process needs it no more: its limit does not count
	Report string // of what the process does there: see Report; empty: nothing
}

// Pulse is what Redis says to a heartbeat.
type Pulse struct {
	Micros int64  // Redis's time
	Known  bool   // Redis knew the process …
	Dead   bool   // … as one that has died: others may have its slots
	Died   int64  // when a process died or ended last, in micros of Redis
	Run    string // of the server; empty: not known

	Names []Ruling // of the first of those that were told: the others are to be told again
}

// Ruling is what is in force under a name.
type Ruling struct {
	Limit string // its text: the slowest
	Kind  string // empty: nobody has used it
}

// Beat sends a heartbeat, and notes what is in force under the names that it told of.
func Beat(ctx context.Context, h *Heartbeat) (Pulse, error) {
	keys, lives := slices.Clone(h.Life), "1"
	if h.Ends {
		lives = "0"
	}
	args := append(make([]any, 0, 5+4*len(h.Names)), "", h.Process, h.Dead.Microseconds(), h.Channel, lives)
	for _, told := range h.Names {
		n, limit := told.Name, told.Name.Limit
		if told.Ends {
			limit = ""
		}
		keys = append(keys, n.Keys...)
		args = append(args, n.Kind, exact(n.Pace), limit, told.Report)
	}
	values, err := run(ctx, h.Client, scripts.Beat, keys, args)
	if err != nil {
		return Pulse{}, err
	}
	r := &reader{values: values}
	p := Pulse{Micros: r.number()}
	known := r.number()
	p.Known, p.Dead, p.Died, p.Run = known > 0, known == 2, r.number(), r.text()
	for i := 0; r.err == nil && len(r.values) > 0 && i < len(h.Names); i++ {
		alive, rank, ruling := r.number(), r.number(), Ruling{r.text(), r.text()}
		if r.err != nil {
			break
		}
		n := h.Names[i].Name
		if ruling.Limit != n.Limit || ruling.Kind != n.Kind {
			rank = 0
		}
		n.Rank.Store(rank)
		n.Alive.Store(alive)
		p.Names = append(p.Names, ruling)
	}
	return p, r.err
}
