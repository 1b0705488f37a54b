package asker

import (
	"errors"
	"time"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/internal/queue"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// A name has one kind of limit (see package lua). The first heartbeat that tells of a name goes out
// beside the first ask, so neither waits for the other. What the ask brings is kept until Redis has
// said which kind is in force: if that is another one, the calls fail, and their turns go back.

// otherKind returns the error of calls with a limit of another kind than the one in force under its
// name; nil: none of theirs is.
func (a *Asker) otherKind(n *Need) error {
	if err := a.otherThan(n.Limit); err != nil {
		return err
	}
	for _, p := range n.More {
		if err := a.otherThan(p.Limit); err != nil {
			return err
		}
	}
	return nil
}

// otherThan is the same of some limits.
func (a *Asker) otherThan(limits ...*wire.Limit) error {
	for _, l := range limits {
		if other := l.Name.Other.Load(); other != nil && a.cfg.Errors.Kind != nil {
			return a.cfg.Errors.Kind(l.Name, *other)
		}
	}
	return nil
}

// refuse ends the waits of calls of another kind than the one in force. The Asker must be locked.
func (a *Asker) refuse(k *kind) {
	if err := a.otherKind(&k.need); err != nil {
		k.queue.Fail(err)
	}
}

// refuses ends the wait of a new call of another kind than the one in force, and reports that it did.
// The name is in use all the same, so that the process hears when that ends. The Asker must be locked.
func (a *Asker) refuses(w *waiter, now time.Time) bool {
	err := a.otherKind(&w.need)
	if err != nil {
		a.beat(w.need.parts(), now)
		w.Tell(queue.Event{Err: err})
	}
	return err != nil
}

// unsure reports whether Redis has not said yet which kind of limit is in force for some names of a
// flight. The Asker must be locked.
func (a *Asker) unsure(f *flight) (unsure bool) {
	for _, l := range f.limits {
		if !l.Name.Sure.Load() && l.Name.Other.Load() == nil && !a.closed {
			a.beat([]Part{{Limit: l}}, time.Now())
			unsure = true
		}
	}
	return unsure
}

// hearKinds returns when Redis has said which kinds of limit are in force for the names of a flight, or
// counts as away. Where it takes no heartbeats, there is nothing to wait for.
func (a *Asker) hearKinds(f *flight) error {
	first := true
	return a.attempt(func() error {
		for {
			a.lock()
			unsure, heard := a.unsure(f), a.heartbeat
			a.mu.Unlock()
			if !unsure {
				return nil
			}
			if !first { // the last one has failed
				a.hurry()
			}
			select {
			case <-heard.back:
				if heard.err != nil && awaited(heard.err) {
					first = false
					return heard.err
				}
			case <-a.life.Done():
				return a.cfg.Errors.Closed
			}
		}
	})
}

// awaited reports whether a heartbeat that has failed may be answered soon. It is not where Redis takes
// none, or denies them.
func awaited(err error) bool {
	return fault.Away(err) && !errors.Is(err, fault.ErrMigrating) && !errors.Is(err, fault.ErrDenied)
}

// round is a heartbeat, with all of its messages.
type round struct {
	back chan struct{} // closed when it is answered, or has failed
	err  error
}

// beaten notes that a heartbeat is answered, or has failed. Where Redis takes none, nothing is known of
// other kinds.
func (a *Asker) beaten(err error) {
	a.lock()
	defer a.mu.Unlock()
	if err != nil && !awaited(err) {
		for name := range a.names {
			name.Sure.Store(true)
		}
	}
	a.heartbeat.err = err
	close(a.heartbeat.back)
	a.heartbeat = &round{back: make(chan struct{})}
}

// rather reports which of two names in use that share keys Redis is told of: the slower one or, of two
// kinds of limit, the one in force, and if neither is known to be, the one that was used first. The
// Asker must be locked.
func (a *Asker) rather(name, other *wire.Name) bool {
	if name.Kind == other.Kind {
		return name.Pace < other.Pace
	}
	if fits := name.Other.Load() == nil; fits != (other.Other.Load() == nil) {
		return fits
	}
	return a.names[name].order < a.names[other].order
}

// kindOf takes in which kind of limit is in force under a name of this process, as a heartbeat says that
// told of another one with the same keys, or of itself. The Asker must be locked.
func (a *Asker) kindOf(name *wire.Name, told *wire.Told, ruling wire.Ruling) {
	pulse := a.names[name]
	if told.Ends {
		name.Other.Store(nil)
		name.Sure.Store(false)
		return
	}
	if ruling.Kind == "" || ruling.Kind == name.Kind {
		name.Other.Store(nil)
		name.Sure.Store(told.Name.Kind == name.Kind)
		if told.Name.Kind != name.Kind { // Redis is to be told of this one
			pulse.stale = time.Now()
			a.hurry()
		}
		return
	}
	name.Other.Store(&ruling.Limit)
	name.Sure.Store(true)
	if pulse.ruling == ruling.Limit {
		return
	}
	pulse.ruling = ruling.Limit
	for l := range pulse.limits {
		a.watch(Event{What: Unfit, Limit: l, Text: ruling.Limit})
		return
	}
}
