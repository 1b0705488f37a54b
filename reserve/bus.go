package reserve

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// mostStops is how many lines share a trip; Redis serves nobody else meanwhile.
	mostStops = 100

	// crowd is how many lines wait before a second trip begins while one is under
	// way: then Redis need not wait for this process.
	crowd = 50

	// distant is the round trip from which on calls do not wait for a trip to come back
	// before the next one leaves. Then up to mostTrips are under way, and each leaves
	// when it has that part of the calls that are: a call waits little for others,
	// and without any timer.
	distant   = 2 * time.Millisecond
	mostTrips = 16

	// yields is how often others run before the next trip begins.
	yields = 16

	// fewLines take Redis no time to speak of; each of more takes it about so long.
	fewLines = 4
	lineWork = 15 * time.Microsecond
)

// bus makes the trips to Redis that calls share. It does so as soon as somebody waits:
// calls wait for each other only while others are under way.
type bus struct {
	core *core
	far  atomic.Bool // Redis is

	mu      sync.Mutex
	waiting int           // calls, as far as they waved
	stops   []*line       // where calls wait, each in use
	trips   int           // under way
	aboard  int           // calls that are
	began   bool          // the first trip is over
	trip    time.Duration // a fast one of the last, without Redis's work
}

// call lets the bus know that so many calls wait at a line, the first there or more. It
// reports whether a trip is to begin now: whoever hears that makes it.
func (b *bus) call(l *line, first bool, calls int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting += calls
	if first {
		b.core.hold(l)
		b.stops = append(b.stops, l)
	}
	if !b.leaves() {
		return false
	}
	b.trips++
	return true
}

// leaves reports whether one more trip begins now. The bus must be locked.
func (b *bus) leaves() bool {
	switch {
	case len(b.stops) == 0:
		return false
	case b.trips == 0:
		return true
	case b.far.Load():
		return b.trips < mostTrips && b.waiting*mostTrips >= b.aboard
	default:
		return b.trips == 1 && len(b.stops) >= crowd
	}
}

// drive makes trips for as long as somebody waits.
func (b *bus) drive() {
	for {
		if calls := b.once(); calls > 1 {
			b.yield(calls)
		}
		if b.rest() {
			return
		}
	}
}

// yield lets those run who were granted their turns: if they want another one, they
// share the next trip with those who wait for it. Nobody waits for a call that may not
// come: it only lets others run, a few times.
func (b *bus) yield(calls int) {
	for range yields {
		runtime.Gosched()
		if b.gathered() >= calls {
			return
		}
	}
}

// gathered is how many calls wait; where they wait at many lines, as many as can be.
func (b *bus) gathered() (calls int) {
	b.mu.Lock()
	lines := b.stops
	b.mu.Unlock()
	if len(lines) > fewLines {
		return math.MaxInt
	}
	for _, l := range lines {
		l.mu.Lock()
		calls += len(l.rides.waiting)
		l.mu.Unlock()
	}
	return calls
}

// myself makes a trip for a call that can as well make it itself; others go on.
func (b *bus) myself() {
	if b.once(); !b.rest() {
		go b.drive()
	}
}

// once makes a trip. It returns how many calls it served, and those that waited when it
// came back.
func (b *bus) once() (calls int) {
	lines := b.next()
	if len(lines) > 0 {
		calls = b.ride(lines)
		for _, l := range lines {
			b.core.leave(l)
		}
	}
	return calls
}

// rest ends the trips of a driver if nobody waits, and reports whether it did.
func (b *bus) rest() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.stops) > 0 {
		return false
	}
	b.trips--
	return true
}

// next returns the lines of the next trip.
func (b *bus) next() []*line {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.stops), mostStops)
	lines := b.stops[:n:n]
	if b.stops = b.stops[n:]; len(b.stops) == 0 {
		b.stops = nil
	}
	return lines
}

// ride makes a trip; see once for what it returns.
func (b *bus) ride(lines []*line) int {
	legs, calls := b.load(lines)
	if len(legs) == 0 {
		return 0
	}
	keys, hops := make([]string, len(legs)), make([]*hop, len(legs))
	for i, g := range legs {
		keys[i], hops[i] = g.line.keys[0], &g.hop
	}
	c := b.core
	ctx := context.Background() // as for fly
	sent := time.Now()
	seen, err := c.quick(ctx, keys, hops)
	arrived := time.Now()
	c.gate.Record(ctx, err)
	b.back(calls, len(legs), arrived.Sub(sent))
	if err != nil {
		for _, g := range legs {
			g.line.stray(g, err)
		}
		return 0
	}
	if waiting := b.gathered(); waiting < math.MaxInt-calls {
		calls += waiting
	}
	at := c.arrival(legs, seen, sent, arrived)
	for _, g := range legs {
		g.line.land(g, seen, at)
	}
	c.greet()
	return calls
}

// load takes in who waits at the lines.
func (b *bus) load(lines []*line) (legs []*leg, calls int) {
	now := time.Now()
	waved := 0
	for _, l := range lines {
		g, of, stay := l.embark(now)
		waved += of
		if g != nil {
			legs = append(legs, g)
			calls += len(g.riders)
		}
		if stay {
			b.core.hold(l)
			b.mu.Lock()
			b.stops = append(b.stops, l)
			b.mu.Unlock()
		}
	}
	b.mu.Lock()
	b.waiting -= waved
	b.aboard += calls
	b.mu.Unlock()
	return legs, calls
}

// back notes that a trip is over. One for many lines says little of the way, unless it
// was fast: how long Redis works on it depends on what else the machine does.
func (b *bus) back(calls, lines int, took time.Duration) {
	if lines > fewLines {
		took = max(0, took-time.Duration(lines)*lineWork)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.aboard -= calls
	switch {
	case !b.began: // it may have opened the connection
		b.began = true
	case b.trip == 0 || took < b.trip:
		b.trip = took
	case lines <= fewLines:
		b.trip += (took - b.trip) / 256
	}
	b.far.Store(b.trip >= distant)
}

// arrival is when the reply to a trip came, as for [clock.arrival]. A line that gave nothing
// may have found that Redis's clock was stepped: that is for a take to hear of.
func (c *core) arrival(legs []*leg, seen int64, sent, arrived time.Time) time.Time {
	shortest := longest
	for _, g := range legs {
		if g.before < 0 {
			return c.clock.estimate(seen, sent, arrived)
		}
		first := int64(1)
		if len(g.riders) > 0 {
			first = g.riders[0].cost
		}
		shortest = min(shortest, max(0, g.due+c.step(first)))
	}
	at, _ := c.clock.arrival(seen, shortest, sent, arrived)
	return at
}
