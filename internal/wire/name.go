package wire

import (
	"strings"
	"sync/atomic"

	"github.com/fleetpace/fleetpace/internal/meter"
)

// Name is the name of a limiter, which all its keys share: processes tell under it that they
// live, and which limit they were made with. It is safe for concurrent use.
type Name struct {
	Life  []string // the first two of lua.BeatKeys: the same for all names of a group …
	Keys  []string // … and the others, of the name alone
	Kind  string   // of its limit, as the scripts know it
	Pace  float64  // of its limit, permits per second: what slower means
	Limit string   // its text

	Text         string // as users know it
	Index, Field string // where others find it: see lua.Index; empty: nowhere

	Rank  atomic.Int64           // of this limit among those of other processes: see beat.lua
	Alive atomic.Int64           // processes; 0: not known
	Other atomic.Pointer[string] // the limit in force, where that is of another kind; nil: it is not
	Sure  atomic.Bool            // Redis has said that, since the name is in use
	Ended atomic.Bool            // its limiter was closed: no call joins any more

	Meter *meter.Limit // counts what happens to its calls; nil: nobody does

	observed atomic.Bool // the user may only look
}

// grouped reports whether the name has a group, whose names share what tells that processes live.
func (n *Name) grouped() bool {
	return len(n.Life) > 0 && strings.TrimSuffix(n.Life[0], "processes") != strings.TrimSuffix(n.Keys[0], "limits")
}
