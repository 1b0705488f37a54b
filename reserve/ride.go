package reserve

import "time"

// Most calls find that their line is plain: nothing waits, nothing is free, and the
// next permits are given in a row. Such calls ride: those that are there when a trip
// begins share it, also with calls of other lines, and each gets the permits that its
// place in the row gives it. A call that comes back with a turn that is not due yet,
// or with none, stands in its queue like any other.

const (
	// mostRiders is how many calls of a line share a trip. It costs Redis no more.
	mostRiders = 4096

	// refreshed is for how long the quick script will do after a take, which counts
	// processes and lets the state live; see quick.lua.
	refreshed = 29 * time.Second
)

// rides are the calls of a line that ride, or are about to.
type rides struct {
	plain   bool      // as far as is known, the quick script will do …
	until   time.Time // … until then
	waiting []*waiter // for the bus
	spare   []*waiter // the room of those before them
	stop    bool      // the bus will come
	waved   int       // how many of them the bus knows
	aboard  []*leg
}

// mayGoOn notes from the answer to a take whether calls may ride. The fraction, up to 1,
// keeps lines apart that began together: a take is dear.
func (r *rides) mayGoOn(a answers, fraction float64) {
	r.plain, r.until = a.plain, a.at.Add(time.Duration((1-fraction/2)*float64(refreshed)))
	for _, t := range a.tickets {
		r.plain = r.plain && t.status == final
	}
}

// board lets a call ride if its line is plain, and else stand. It reports whether the
// call is to make a trip.
func (l *line) board(w *waiter) bool {
	l.mu.Lock()
	l.arrive(w)
	if !l.rides.plain || l.slow() {
		l.turnAway(w)
		l.serve()
		l.mu.Unlock()
		return false
	}
	l.rides.waiting = append(l.rides.waiting, w)
	first := !l.rides.stop
	l.rides.stop = true
	if !first && !l.core.bus.far.Load() {
		l.mu.Unlock()
		return false
	}
	l.rides.waved++
	l.mu.Unlock()
	return l.core.bus.call(l, first, 1)
}

// turnAway lets a call that can not ride stand, and asks for it. The line must be
// locked.
func (l *line) turnAway(w *waiter) {
	switch {
	case !w.turn(standing):
	case w.lone:
		w.tell()
	default:
		l.stand(w)
		w.ask = l.askFor(w.queue, w)
		l.enqueue(w.ask)
	}
}

// turnAllAway lets the calls stand that ride, or are about to. The line must be
// locked.
func (l *line) turnAllAway() {
	for _, w := range l.rides.waiting {
		l.turnAway(w)
	}
	for _, g := range l.rides.aboard {
		for _, w := range g.riders {
			l.turnAway(w)
		}
	}
}

// embark begins a leg with the calls that wait for the bus; nil: nobody rides. It also
// returns how many of them the bus knew, and whether some are still there.
func (l *line) embark(now time.Time) (g *leg, waved int, stay bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.rides
	waved, r.waved = r.waved, 0
	if n := len(r.aboard); n >= mostTrips || n > 0 && !l.core.bus.far.Load() {
		r.stop = false // a leg is back soon, and calls the bus
		return nil, waved, false
	}
	riders := r.waiting[:min(len(r.waiting), mostRiders)]
	r.waiting, r.spare = append(r.spare[:0], r.waiting[len(riders):]...), nil
	stay = len(r.waiting) > 0
	r.stop = stay

	g = &leg{line: l}
	rides := r.plain && now.Before(r.until) && !l.core.gate.Open()
	if rides {
		if g.lane = l.usedLane(); g.lane == nil {
			l.pioneer(riders)
			return nil, waved, stay
		}
	}
	if !rides {
		for _, w := range riders {
			l.turnAway(w)
		}
		riders = riders[:0]
	}
	g.seat(riders, l.core, now)
	l.lease.count += g.permits
	if rides {
		g.takeAhead(l.wants(now), l.core)
	}
	if g.permits == 0 {
		r.spare = g.riders
		l.lease.asked = false
		if rides {
			g.lane.busy = false
		}
		return nil, waved, stay
	}
	g.epoch, g.live, g.gen = l.memory.epoch, l.memory.told, l.where.gen
	g.member, g.known = g.lane.arg, g.lane.known()
	g.hop.line = l.memory.text()
	g.serial = l.sign(g.lane)
	r.aboard = append(r.aboard, g)
	return g, waved, stay
}
