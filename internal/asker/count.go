package asker

import (
	"time"

	"github.com/fleetpace/fleetpace/internal/meter"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// count adds what happened to the numbers of its limits.
func (e *Event) count() {
	switch e.What {
	case Asked:
		meter.Asked(e.N, e.Took, e.Err)
	case Used:
		e.Need.each(func(p Part) { p.used(e) })
	case Lapsed:
		e.Need.each(func(p Part) { p.Limit.Name.Meter.Add(meter.Lapsed, int64(e.N)) })
	case Voided:
		e.Need.each(func(p Part) { p.Limit.Name.Meter.Add(meter.Voided, int64(e.N)) })
	}
}

// each calls f for all parts.
func (n *Need) each(f func(Part)) {
	f(n.Part)
	for _, p := range n.More {
		f(p)
	}
}

// Ended counts a call of the need that was not let through, after so long in the queue.
func (n *Need) Ended(r meter.Result, waited time.Duration) {
	n.each(func(p Part) {
		p.Limit.Name.Meter.Ended(r, 1)
		if waited > 0 {
			p.Limit.Name.Meter.InQueue(r, waited, 0)
		}
	})
}

// Unused counts a turn of the need that was counted as used, and was not.
func (n *Need) Unused() {
	n.each(func(p Part) { p.Limit.Name.Meter.Add(meter.Unused, 1) })
}

// used counts a call that was let through.
func (p Part) used(e *Event) {
	p.Limit.Calls.Add(int64(e.N))
	m := p.Limit.Name.Meter
	if p.Cost > 1 { // additions that many do at once are what counting costs
		further := int64(e.N) * (p.Cost - 1)
		p.Limit.Further.Add(further)
		m.Add(meter.Further, further)
	}
	result := meter.AtOnce
	if e.Waited > 0 {
		result = meter.Waited
		m.InQueue(result, e.Waited, e.Took)
	}
	m.Ended(result, e.N)
	if e.Alone {
		m.Add(meter.Alone, int64(e.N))
	}
}

// Standing adds to what of returns for each limit how it stands, and reports whether Redis is
// away.
func (a *Asker) Standing(of func(*meter.Limit) *meter.Standing) (away bool) {
	a.mu.Lock() // lets nobody in: who collects is not one of the callers
	defer a.mu.Unlock()
	stands := func(l *wire.Limit) *meter.Standing {
		if l.Name.Meter == nil {
			return &meter.Standing{}
		}
		return of(l.Name.Meter)
	}
	for name := range a.names {
		if name.Meter != nil {
			of(name.Meter)
		}
	}
	for _, k := range a.kinds {
		for _, p := range k.parts {
			stands(p.Limit).Waiting += int64(k.queue.Calls())
		}
	}
	for s := range a.slots {
		for _, p := range s.need.parts() {
			if p.Limit.Kind == "s" {
				stands(p.Limit).Slots += p.Cost
			}
		}
	}
	return a.away != nil
}
