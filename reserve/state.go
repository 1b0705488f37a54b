package reserve

import (
	"context"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// State is how a limit stands at one moment, for people and dashboards.
type State struct {
	// Rate and Burst are of the limit that is in force: permits per second, and permits. Of
	// slots, Rate is how many there are. They differ from the Limiter's own limit where
	// processes were made with different limits, or where [Limiter.SetLimit] set another one.
	Rate  float64
	Burst int

	// Limit is the limit that is in force, as a whole.
	Limit Limit

	// Set reports whether the limit was set by [Limiter.SetLimit], and SetFor for how much
	// longer; 0 means until it is set again or reset.
	Set    bool
	SetFor time.Duration

	// Stored is how many permits are available now.
	Stored float64

	// NextFree is the moment, on the local clock, at which the last permit that was spent
	// becomes available again. It is in the past while permits are stored. Only paced limits
	// have it; else it is zero.
	NextFree time.Time

	// Wait is how long a call of one permit would wait now.
	Wait time.Duration

	// Waiting is how many calls wait, and Booked how many will come: see [Joint.Join].
	Waiting, Booked int64

	// Processes is how many processes use the limit. One that has had no call for 10 s, or is
	// silent for 3 s, does not count.
	Processes int64

	// Holders are the calls that hold slots, the oldest first; at most 1,000.
	Holders []Holder

	// Paused is how much longer the pause lasts, and PauseReason why there is one. Without a
	// pause they are zero.
	Paused      time.Duration
	PauseReason string
}

// A Holder is a call that holds slots: see [Concurrent].
type Holder struct {
	// Process is the name of its process in Redis. Doing is the ID of the call; without one it
	// is the flow, if there is one.
	Process, Doing string
	Number         int64     // of the call, in its process
	Slots          int       // that it holds
	Since          time.Time // on the local clock
}

// State looks at the limit and changes nothing. It asks Redis. Errors: [ErrUnavailable],
// [ErrDenied], [ErrCorrupt], [ErrInvalid], [ErrClosed], or the context's.
func (l *Limiter) State(ctx context.Context) (State, error) {
	states, err := l.joint().inspect(ctx)
	if err != nil {
		return State{}, failed("state", l, err)
	}
	return states[0], nil
}

// States is [Limiter.State] of all limits, in their order and at one moment.
func (j *Joint) States(ctx context.Context) ([]State, error) {
	states, err := j.inspect(ctx)
	return states, failed("states", j, err)
}

func (j *Joint) inspect(ctx context.Context) ([]State, error) {
	if _, err := j.need(ctx, nil); err != nil {
		return nil, err
	}
	found, err := j.asker().Inspect(ctx, j.all())
	if err != nil {
		return nil, j.shared().why(ctx, err)
	}
	now := time.Now()
	states := make([]State, len(found))
	for i := range found {
		states[i] = j.limits[i].stateOf(&found[i], now)
	}
	return states, nil
}

// stateOf is a State that was heard now.
func (l *Limiter) stateOf(s *wire.State, now time.Time) State {
	limit := l.Limit()
	rate, burst := limit.inForce(s.A, s.B)
	state := State{
		Rate: rate, Burst: burst, Limit: limit.with(s.A, s.B), Set: s.Set, SetFor: s.SetFor,
		Stored: float64(s.Stored), Wait: max(0, s.Next), Waiting: s.Waiting, Booked: s.Booked, Processes: s.Processes,
		Paused: s.Paused, PauseReason: s.Reason,
	}
	for _, h := range s.Holders {
		state.Holders = append(state.Holders, Holder{Process: h.Process, Number: h.Number, Doing: h.Doing, Slots: int(h.Cost), Since: now.Add(-h.Since)})
	}
	if limit.kind == KindPaced {
		state.NextFree = now.Add(s.Free)
	}
	return state
}
