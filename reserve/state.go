package reserve

import (
	"context"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// State is the state of a limit at one moment, for people and dashboards.
type State struct {
	// Rate and Burst describe the limit in force: permits per second, and permits. For slots, Rate
	// is their number. They differ from the Limiter's own limit if processes are configured with
	// different limits, or if [Limiter.SetLimit] has overridden it.
	Rate  float64
	Burst int

	// Limit is the limit in force.
	Limit Limit

	// Set reports whether [Limiter.SetLimit] has overridden the limit, and SetFor for how much
	// longer; 0 means until it is reset or set again.
	Set    bool
	SetFor time.Duration

	// Stored is how many permits are available now.
	Stored float64

	// NextFree is the moment, on the local clock, at which the bucket of a paced limit is empty. If
	// it is in the past, the bucket has refilled since. If it is in the future, permits are granted
	// up to that moment. For other limits it is zero.
	NextFree time.Time

	// Wait is how long a call of one permit would wait now, if no booked call returns. Booked calls
	// come before it when they return, and are not in this forecast: with many of them, a call
	// may wait for several times as long.
	Wait time.Duration

	// Waiting is the number of waiting calls, and Booked of booked calls: see [Joint.Book].
	Waiting, Booked int64

	// Processes is how many processes use the limit. A process that has made no call for 10 s, or
	// has sent no heartbeat for 3 s, does not count.
	Processes int64

	// Holders are all calls that hold slots, the oldest first: at most 1,000, as a limit has no more slots.
	Holders []Holder

	// Paused is how much longer the pause lasts, and PauseReason is its reason. Without a pause
	// they are zero.
	Paused      time.Duration
	PauseReason string

	// Stopped reports whether the pause is a stop: see [Limiter.Stop]. StoppedUntil is when the provider
	// serves calls again, on the local clock; zero: not known.
	Stopped      bool
	StoppedUntil time.Time

	// StoppedTogether is the group, if the stop covers several of its limits. Their key follows if they have the same
	// one. It is what the command fleetpace resume takes to end the whole stop.
	StoppedTogether []string
}

// A Holder is a call that holds slots: see [Concurrent].
type Holder struct {
	// Process is the name of the call's process in Redis. Doing is the ID of the call. Without an
	// ID it is the flow, if there is one.
	Process, Doing string
	Number         int64     // number of the call in its process
	Slots          int       // how many slots it holds
	Since          time.Time // when it got them, on the local clock
}

// State reads the state of the limit from Redis and changes nothing. Errors: [ErrUnavailable],
// [ErrDenied], [ErrCorrupt], [ErrInvalid], [ErrClosed], or the context's.
func (l *Limiter) State(ctx context.Context) (State, error) {
	states, err := l.joint().inspect(ctx)
	if err != nil {
		return State{}, failed("state", l, err)
	}
	return states[0], nil
}

// States is [Limiter.State] for some keys, in their order. It takes one round trip per 32 keys, and two
// for limits of a group.
func (l *Limiter) States(ctx context.Context, keys ...string) ([]State, error) {
	states := make([]State, 0, len(keys))
	for len(keys) > 0 {
		some := keys[:min(len(keys), keysPerScript)]
		keys = keys[len(some):]
		j := &Joint{}
		for _, key := range some {
			j.limits = append(j.limits, l.For(key))
		}
		found, err := j.inspect(ctx)
		if err != nil {
			return nil, failed("states", l, err)
		}
		states = append(states, found...)
	}
	return states, nil
}

// keysPerScript is how many keys a script reads within a millisecond.
const keysPerScript = 32

// States is [Limiter.State] for all limits, in their order and at one moment.
func (j *Joint) States(ctx context.Context) ([]State, error) {
	states, err := j.inspect(ctx)
	return states, failed("states", j, err)
}

func (j *Joint) inspect(ctx context.Context) ([]State, error) {
	if err := j.ready(ctx); err != nil {
		return nil, err
	}
	found, err := j.process().Inspect(ctx, j.all())
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

// stateOf converts a State that was received now.
func (l *Limiter) stateOf(s *wire.State, now time.Time) State {
	limit := l.Limit()
	rate, burst := limit.inForce(s.A, s.B)
	state := State{
		Rate: rate, Burst: burst, Limit: limit.with(s.A, s.B), Set: s.Set, SetFor: s.SetFor,
		Stored: float64(s.Stored), Wait: max(0, s.Next), Waiting: s.Waiting, Booked: s.Booked, Processes: s.Processes,
		Paused: s.Paused,
	}
	state.pausedFor(l.Group(), l.limit, s.Reason)
	for _, h := range s.Holders {
		state.Holders = append(state.Holders, Holder{Process: h.Process, Number: h.Number, Doing: h.Doing, Slots: int(h.Cost), Since: now.Add(-h.Since)})
	}
	if limit.kind == KindPaced {
		state.NextFree = now.Add(s.Free)
	}
	return state
}
