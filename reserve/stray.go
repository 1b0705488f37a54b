package reserve

import (
	"context"

	"github.com/fleetpace/fleetpace/internal/fault"
)

// stray lets the calls of a leg stand whose trip failed. It may have been carried out:
// then the same numbers come when it is repeated.
func (l *line) stray(g *leg, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.getOff(g)
	l.rides.plain, l.lease.asked = false, false
	if !fault.Away(err) || len(g.riders) == 0 {
		g.lane.busy = false
		for _, w := range g.riders {
			l.turnAway(w)
		}
		l.serve()
		return
	}
	l.again(g, err)
	l.serve()
}

// pioneer lets calls take on a lane that the line does not know yet, as those that it
// knows are all under way. It is one of the trips that may be under way for the line, as
// the line has to remember each lane. The line must be locked.
func (l *line) pioneer(calls []*waiter) {
	g := &leg{line: l}
	for _, w := range calls {
		switch {
		case w.stage.Load() != riding:
		case len(g.riders) < maxBatch:
			g.riders = append(g.riders, w)
		default:
			l.turnAway(w)
		}
	}
	if len(g.riders) > 0 {
		g.lane, g.serial = l.number()
		l.rides.aboard = append(l.rides.aboard, g)
		l.again(g, nil)
	}
}

// again takes what the calls of a leg want, or got already, under its serial.
func (l *line) again(g *leg, err error) {
	asks := make([]*ask, len(g.riders))
	for i, w := range g.riders {
		asks[i] = l.askFor(l.shared(w.cost), w)
		if w.lone || w.turn(standing) {
			w.ask = asks[i]
		}
		if !w.lone && w.ask == asks[i] {
			l.stand(w)
		}
	}
	l.core.hold(l)
	go l.repeat(g, asks, err)
}

// repeat asks again for what a trip may have brought. While Redis is away, those who
// still want it wait for what the policy says.
func (l *line) repeat(g *leg, asks []*ask, err error) {
	defer l.core.leave(l)
	answered := l.takeAs(context.Background(), g.lane, g.serial, err, asks)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.getOff(g)
	if answered {
		return
	}
	var wanted []*ask
	for i, w := range g.riders {
		q := asks[i].queue
		q.asking--
		switch {
		case w.lone:
			l.turnAway(w)
		case w.place != nil && w.ask == asks[i], q.short() > 0: // by whomever
			q.asking++
			wanted = append(wanted, asks[i])
		}
	}
	l.asks = append(wanted, l.asks...)
	l.kick()
}
