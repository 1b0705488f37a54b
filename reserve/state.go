package reserve

import (
	"context"
	"math"
	"time"

	"github.com/fleetpace/fleetpace/lua"
)

// State is what a line looks like at one moment, for people and dashboards.
type State struct {
	// Rate is permits per second, and Burst permits, of the limit that the line
	// was last used with; where they differ from the Limiter's own, processes
	// of different configuration share the line, or the limit was Set for all: with
	// [Limiter.SetLimit], for SetFor more, or until it is set again if that is 0.
	Rate   float64
	Burst  int
	Set    bool
	SetFor time.Duration

	// Stored is how many permits are available now.
	Stored float64

	// NextFree is when the line is free again: the moment, on the local clock,
	// at which the last permit that was given out becomes available. It is in
	// the past while permits are stored.
	NextFree time.Time

	// Wait is how long a call of one permit would wait now.
	Wait time.Duration

	// Line is how many permits are given out whose turn has not come yet.
	Line int64

	// Processes is how many called within the last minute or so.
	Processes int64

	// Paused is for how long no call has its turn, and PauseReason why; 0 where there is
	// no pause.
	Paused      time.Duration
	PauseReason string

	// Waiting is how many numbers stand in the waiting list, to be claimed; Free
	// is how many went back and wait to be used.
	Waiting, Free int64
}

// State looks at the line and changes nothing. Errors: [ErrUnavailable],
// [ErrCorrupt], [ErrInvalid].
func (l *Limiter) State(ctx context.Context) (State, error) {
	s, err := l.inspect(ctx)
	return s, l.fail("state", err)
}

func (l *Limiter) inspect(ctx context.Context) (State, error) {
	if l.err != nil {
		return State{}, l.err
	}
	if !l.paced() {
		return State{}, l.unpaced()
	}
	c := l.core
	reply, err := c.look(ctx, c.keys(l.key))
	if err != nil {
		return State{}, err
	}
	v, err := decodeState(reply)
	if err != nil {
		return State{}, err
	}
	paused, err := micros(int64(v["pauseMicros"]))
	if err != nil {
		return State{}, err
	}
	reach, err := micros(int64(v["reachMicros"]))
	if err != nil {
		return State{}, err
	}
	wait, err := micros(int64(v["waitMicros"]))
	if err != nil {
		return State{}, err
	}
	permits := -v["reachMicros"] / v["intervalMicros"]
	return State{
		Rate:      float64(time.Second/time.Microsecond) / v["intervalMicros"],
		Burst:     int(v["burst"]),
		Stored:    math.Min(math.Max(permits, 0), v["burst"]),
		NextFree:  time.Now().Add(reach),
		Wait:      wait,
		Line:      int64(math.Ceil(math.Max(-permits, 0))),
		Waiting:   int64(v["waiting"]),
		Free:      int64(v["free"]),
		Processes: int64(v["live"]),
		Set:       v["setMicros"] != 0, SetFor: time.Duration(max(0, v["setMicros"])) * time.Microsecond,
		Paused: paused, PauseReason: reasonOf(reply),
	}, nil
}

func (c *core) look(ctx context.Context, keys []string) (any, error) {
	return c.run(ctx, lua.Inspect, keys, []any{c.limit[0], c.limit[1]})
}

// whereabouts asks where a line is.
func (c *core) whereabouts(ctx context.Context, l *line) (geometry, error) {
	sent := time.Now()
	reply, err := c.look(ctx, l.keys)
	if err != nil {
		return geometry{}, err
	}
	v, err := decodeState(reply)
	if err != nil {
		return geometry{}, err
	}
	reach, err := micros(int64(v["finalMicros"]))
	if err != nil {
		return geometry{}, err
	}
	pause, err := micros(int64(v["pauseMicros"]))
	if err != nil {
		return geometry{}, err
	}
	return answers{
		head: head{
			terms: terms{v["intervalMicros"], int64(v["burst"])},
			epoch: int64(v["epoch"]), seen: int64(v["seenMicros"]), gen: int64(v["gen"]), final: int64(v["final"]), reach: reach, pause: pause,
		},
		at: c.clock.estimate(int64(v["seenMicros"]), sent, time.Now()),
	}.geometry(), nil
}
