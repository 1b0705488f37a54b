package asker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/queue"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// loadLeft takes in the places and turns that nobody needs, and returns how many. A turn that can
// not go back lapses.
func (a *Asker) loadLeft(f *flight, k *kind) int {
	first := len(f.left)
	for _, p := range k.queue.Spare() {
		f.loadSlots(k, &queue.Turn{Number: p.Number}) // of a turn that was over
		if !k.books {
			f.loadPlace(k, p)
		}
		if k.need.ID != "" {
			f.loadBooked(k, p.Number, p.Tags, p.Slowest)
		}
	}
	for _, t := range k.queue.Ended() {
		f.loadSlots(k, t)
	}
	for _, t := range k.queue.Unused() {
		if t.Process == "" {
			continue
		}
		f.loadSlots(k, t)
		if l := a.leases[k.need.Part]; l != nil && k.leases() && !a.closed && !t.Due.After(time.Now()) {
			t.Ask = "" // its ask may have been given others that the lease has used
			l.keep(t)
			continue
		}
		f.loadTurn(k, t)
		if k.books {
			tags := t.Tags
			if tags == nil {
				tags = slices.Repeat([]int64{t.Given}, len(k.parts))
			}
			f.loadBooked(k, t.Number, tags, 0)
		}
	}
	n := len(f.left) - first
	if n > 0 {
		a.watch(Event{What: Left, N: n, Need: &k.need})
		f.leaving = append(f.leaving, k)
		k.leaving++
	}
	return n
}

// leavingOf reports whether a limit of a kind is about to have permits back.
func (a *Asker) leavingOf(k *kind) bool {
	return len(a.leaving) > 0 && slices.ContainsFunc(k.parts, func(p Part) bool { return a.leaving[p.Limit.Keys[0]] > 0 })
}

// loadPlace takes in a place that is left. The process does not know at which limit it is
// now.
func (f *flight) loadPlace(k *kind, p *queue.Place) {
	for _, part := range k.parts {
		f.left = append(f.left, wire.Left{Limit: f.at(part.Limit), Place: p.Number, Cost: part.Cost, Flow: k.need.Flow})
	}
}

// loadTurn takes in a turn that nobody uses.
func (f *flight) loadTurn(k *kind, t *queue.Turn) {
	switch {
	case len(k.parts) == 1 && k.queue.Slots != nil:
	case len(k.parts) == 1 && t.GoBack(k.need.Cost):
		f.left = append(f.left, wire.Left{Limit: f.at(k.need.Limit), Turns: t.Ask, Cost: t.Permit - k.need.Cost})
	case len(k.parts) > 1 && t.Alone:
		for _, part := range k.parts {
			f.left = append(f.left, wire.Left{Limit: f.at(part.Limit), Turns: t.Ask})
		}
	}
}

// sendLeft leaves the places and turns of a flight, before it asks. Where Redis is away they
// lapse.
func (a *Asker) sendLeft(f *flight) {
	caller := f.caller
	caller.Serial = a.serial.Add(1)
	call := f.call(a, caller)
	call.Back = nil
	err := a.attempt(func() error {
		call.Run = a.server()
		a.sends(call)
		reply, _, err := wire.Leave(context.Background(), call, f.left)
		if err == nil {
			a.arrive(call, &reply)
		}
		return err
	})
	a.lock()
	defer a.mu.Unlock()
	if errors.Is(err, errAway) && !a.closed { // else its slots are free when Redis counts it as dead
		for _, e := range f.ended {
			e.kind.queue.Done(e.turn)
		}
		a.beAway()
	}
	if err == nil {
		a.looks(f.limits)
	}
	for _, k := range f.leaving {
		k.leaving--
		a.wants(k)
	}
	for _, l := range f.left {
		key := f.limits[l.Limit].Keys[0]
		if a.leaving[key]--; a.leaving[key] == 0 {
			delete(a.leaving, key)
		}
	}
	for _, k := range a.behind {
		k.followed = true
		a.wants(k)
	}
	a.behind = nil
	a.kick()
}
