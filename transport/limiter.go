package transport

import (
	"context"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport/headers"
)

// Limiter gives turns. *reserve.Limiter is one. It must be safe for concurrent
// use.
type Limiter interface {
	// WaitN blocks until a call that costs n permits has its turn.
	WaitN(ctx context.Context, n int) error
}

// Pauser is a Limiter that can be told that nobody may call for a while.
type Pauser interface {
	Limiter
	// Pause lets no call of the fleet be due for d, at least; it never shortens a
	// pause. The reason is for people.
	Pause(ctx context.Context, d time.Duration, reason string) error
}

// Adjuster is a Limiter whose limit can be changed while it is used.
//
// If it also has the method State of *reserve.Limiter, that is asked which limit
// the fleet goes by before it is changed.
type Adjuster interface {
	Limiter
	// Limit is the limit that the Limiter was made with.
	Limit() reserve.Limit
	// SetLimit changes the limit of the whole fleet until the expiry is over, or
	// until it is changed again; 0 is no expiry.
	SetLimit(ctx context.Context, limit reserve.Limit, expiry time.Duration) error
}

// Turn is what a request needs before it may be sent.
type Turn struct {
	// Limiter to wait for. nil: the request is sent without a turn, and what its
	// answer says is not heeded.
	Limiter Limiter

	// Cost in permits, from 1 to the limit's burst. 0 means 1.
	Cost int

	// Window is the name of the limit that the Limiter stands for, among those
	// that the provider's answers tell: "requests", "input-tokens", "core", the
	// name of a policy; see [headers.Window]. The others do not concern it. Empty:
	// all limits that count requests do.
	//
	// Name it where a provider has several limits for different requests, as
	// GitHub has for its search.
	Window string

	// Adapt hears how the request was answered, so that the limit can follow; see
	// [Config.Adapt]. nil: nobody does.
	Adapt Adapter
}

// concerns reports whether w is a limit that the turn's Limiter stands for.
func (t Turn) concerns(w headers.Window) bool {
	if t.Window == "" {
		return w.Unit == headers.Requests
	}
	return w.Name == strings.ToLower(t.Window)
}
