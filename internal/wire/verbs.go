package wire

import (
	"context"
	"time"

	scripts "github.com/fleetpace/fleetpace/lua/queue"
)

// Left is a place that a call leaves, or turns of an ask that nobody uses.
type Left struct {
	Limit int
	// Of a place its number and its cost; of turns the ask that they were given to, and how
	// many permits of it are still needed, its first ones.
	Place int64
	Turns string
	Cost  int64
}

// Leave leaves places, and gives back turns that nobody used. It may be repeated.
func Leave(ctx context.Context, c *Call, items []Left) (Reply, error) {
	extra := make([]any, 0, 4*len(items))
	for _, item := range items {
		if item.Turns != "" {
			extra = append(extra, item.Limit+1, "turn", item.Turns, item.Cost)
		} else {
			extra = append(extra, item.Limit+1, "place", item.Place, item.Cost)
		}
	}
	reply, _, err := c.run(ctx, scripts.Leave, extra)
	return reply, err
}

// Used is what a call really used of a limit.
type Used struct {
	Limit      int
	ID         string // "<process>:<number>" of the call
	Cost, Used int64
}

// Settle tells what calls really used, and returns which of them were known. It may be
// repeated: each call counts once.
func Settle(ctx context.Context, c *Call, items []Used) (Reply, []bool, error) {
	extra := make([]any, 0, 4*len(items))
	for _, item := range items {
		extra = append(extra, item.Limit+1, item.ID, item.Cost, item.Used)
	}
	reply, r, err := c.run(ctx, scripts.Settle, extra)
	if err != nil {
		return reply, nil, err
	}
	settled := make([]bool, len(items))
	for i := range settled {
		settled[i] = r.number() == 1
	}
	return reply, settled, r.err
}

// Pause lets no call be due for a time.
func Pause(ctx context.Context, c *Call, d time.Duration, reason string) (Reply, error) {
	reply, _, err := c.run(ctx, scripts.Pause, []any{d.Microseconds(), reason})
	return reply, err
}

// Resume ends a pause.
func Resume(ctx context.Context, c *Call) (Reply, error) {
	reply, _, err := c.run(ctx, scripts.Resume, nil)
	return reply, err
}

// Set lets another limit be in force, for a time or, with 0, until it is set again.
func Set(ctx context.Context, c *Call, a, b float64, d time.Duration) (Reply, error) {
	reply, _, err := c.run(ctx, scripts.Set, []any{exact(a), exact(b), d.Microseconds()})
	return reply, err
}

// Reset ends what Set began.
func Reset(ctx context.Context, c *Call) (Reply, error) {
	reply, _, err := c.run(ctx, scripts.Set, []any{"", "", 0})
	return reply, err
}

// State is how a limit stands.
type State struct {
	A, B    float64       // in force; 0: the limit has no state, or a problem
	Next    time.Duration // until a call that comes now could have its turn
	Waiting int64         // calls
	Permits int64         // that they want
	Paused  time.Duration // until a pause ends; 0: there is none
	Reason  string        // of the pause
}

// Inspect returns how the limits stand, and changes nothing.
func Inspect(ctx context.Context, c *Call) (Reply, []State, error) {
	reply, r, err := c.run(ctx, scripts.Inspect, nil)
	if err != nil {
		return reply, nil, err
	}
	states := make([]State, len(c.Limits))
	for i := range states {
		s, limit := &states[i], termsOf(r.text(), inForce{})
		s.A, s.B = limit.a, limit.b
		s.Next, s.Waiting, s.Permits, s.Paused, s.Reason = r.micros(), r.number(), r.number(), r.micros(), r.text()
	}
	return reply, states, r.err
}
