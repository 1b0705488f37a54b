package asker

import (
	"context"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// measure finds out how far away Redis is, before the process asks for its first turn: one that
// is late by the way back is late against those of others. Where Redis is near, a trip or two
// are enough.
func (a *Asker) measure(f *flight) error {
	for !a.clock.sure() {
		call := f.call(a, f.caller)
		call.Limits, call.Back = call.Limits[:1], nil
		reply, _, err := wire.Inspect(context.Background(), call)
		if err != nil {
			return err
		}
		a.arrive(call, &reply)
	}
	return nil
}
