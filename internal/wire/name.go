package wire

import (
	"sync/atomic"

	"github.com/fleetpace/fleetpace/internal/meter"
)

// Name is the name of a limiter, which all its keys share: processes tell under it that they
// live, and which limit they were made with. It is safe for concurrent use.
type Name struct {
	Keys  []string // as lua.BeatKeys returns them
	Pace  float64  // of its limit, permits per second: what slower means
	Limit string   // its text

	Text         string // as users know it
	Index, Field string // where others find it: see lua.Index; empty: nowhere

	Rank  atomic.Int64 // of this limit among those of other processes: see beat.lua
	Alive atomic.Int64 // processes; 0: not known
	Ended atomic.Bool  // its limiter was closed: no call joins any more

	Meter *meter.Limit // counts what happens to its calls; nil: nobody does

	observed atomic.Bool // the user may only look
}
