package asker

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/queue"
	"github.com/fleetpace/fleetpace/internal/wire"
)

const (
	// What a flight takes is cut by the work that it is to Redis, in micros: no script is to
	// take a millisecond.
	mostWork    = 900
	workOfCall  = 75 // that waits or may have to
	workOfLimit = 10 // whose calls find nobody waiting
	mostCalls   = 4096
	workOfLeave = 60

	// distant is the fastest round trip from which on flights overlap: each begins when it has
	// that part of the calls that are under way. Nearer, a second one begins for so many kinds.
	distant     = 2 * time.Millisecond
	mostFlights = 16
	crowd       = 50

	// yields is how often others run before the next flight begins.
	yields = 16
)

// flight is what goes to Redis together.
type flight struct {
	caller  wire.Caller
	limits  []*wire.Limit
	index   map[string]int
	items   []wire.Item
	parts   []wire.Part // of all items
	asks    []ask       // one per item
	back    []string
	left    []wire.Left
	leaving []*kind     // those whose places and turns these are
	ended   []endedTurn // turns that hold their slots no longer
	calls   int
	late    time.Duration // the way that it takes for granted at the least
	sent    time.Time     // the last time
}

// ask is what a kind asks for with one item.
type ask struct {
	kind  *kind
	place *queue.Place // nil: new calls
	lease *lease       // that asks for turns ahead; nil: calls do
}

// flight returns an empty one. The Asker must be locked.
func (a *Asker) flight() *flight {
	if n := len(a.landed); n > 0 {
		f := a.landed[n-1]
		a.landed = a.landed[:n-1]
		return f
	}
	return &flight{index: map[string]int{}}
}

// reuse empties a flight for another one. The Asker must be locked.
func (a *Asker) reuse(f *flight) {
	clear(f.limits)
	clear(f.index)
	clear(f.items)
	clear(f.asks)
	clear(f.leaving)
	clear(f.ended)
	*f = flight{index: f.index, limits: f.limits[:0], items: f.items[:0], parts: f.parts[:0], asks: f.asks[:0], back: f.back[:0],
		left: f.left[:0], leaving: f.leaving[:0], ended: f.ended[:0]}
	a.landed = append(a.landed, f)
}

// kick begins a flight if there is something to ask for. The Asker must be locked.
func (a *Asker) kick() {
	if !a.mayFly() {
		return
	}
	a.begin()
	go a.fly()
}

// distant reports whether Redis is so far away that flights overlap. A first trip, which connects
// and sends the script, does not tell.
func (a *Asker) distant() bool {
	t := a.clock.now(time.Now())
	return t.trips >= alike && t.fastest >= distant
}

func (a *Asker) mayFly() bool {
	switch {
	case len(a.ready) == 0, a.away != nil && !a.closed:
		return false
	case a.flights == 0:
		return true
	case a.distant():
		calls := 0
		for _, k := range a.ready {
			calls += k.queue.Waiting()
		}
		return a.flights < mostFlights && calls*mostFlights >= a.aboard
	default:
		return a.flights == 1 && len(a.ready) >= crowd
	}
}

// fly makes flights for as long as there is something to ask for.
func (a *Asker) fly() {
	for {
		f := a.load()
		if f == nil {
			return
		}
		calls := f.calls
		a.send(f)
		a.yield(calls + a.gathered())
	}
}

// flyOnce makes a flight for the call that needs it; others go on.
func (a *Asker) flyOnce() {
	if f := a.load(); f != nil {
		a.send(f)
		a.lock()
		a.land()
		a.kick()
		a.mu.Unlock()
	}
}

// yield lets those run who were given their turns: if they want another one, they share the
// next flight with those who wait for it.
func (a *Asker) yield(calls int) {
	for range yields {
		if a.gathered() >= calls {
			return
		}
		runtime.Gosched()
	}
}

func (a *Asker) gathered() (calls int) {
	a.lock()
	defer a.mu.Unlock()
	for _, k := range a.ready {
		calls += k.queue.Waiting()
	}
	return calls
}

// load takes in what there is to ask for; nil: nothing, and the flight is over.
func (a *Asker) load() *flight {
	now := time.Now()
	a.lock()
	defer a.mu.Unlock()
	t := a.clock.now(now)
	if a.away != nil && !a.closed {
		a.land()
		return nil
	}
	f := a.flight()
	work := 0
	var more []*kind
	a.waitingFirst()
	for len(a.ready) > 0 && work < mostWork {
		k := a.ready[0]
		if a.ready = a.ready[1:]; len(a.ready) == 0 {
			a.ready = nil
		}
		k.ready = false
		if k.leaving > 0 { // what it asks for now would stand behind its own places
			continue
		}
		if k.need.Now && !k.followed && a.leavingOf(k) {
			a.behind = append(a.behind, k)
			continue
		}
		k.followed = false
		a.refuse(k)
		work += a.loadLeft(f, k) * workOfLeave
		if a.load1(f, k, t, now, &work) {
			more = append(more, k)
		} else {
			a.plan(k, t, now)
		}
	}
	for _, k := range more {
		a.wants(k)
	}
	if len(f.items)+len(f.left) == 0 {
		a.reuse(f)
		a.land()
		return nil
	}
	if a.known && now.Sub(a.answered) >= a.cfg.Dead { // the process may have been taken for dead
		a.unmet.Store(true)
	}
	f.caller = a.caller(t)
	f.caller.Way = min(max(f.caller.Way, f.late), farthest-leastHorizon)
	f.caller.Horizon = min(f.caller.Horizon, farthest-f.caller.Way)
	for _, l := range f.left { // what it asks for itself comes behind that
		a.leaving[f.limits[l.Limit].Keys[0]]++
	}
	a.aboard += f.calls
	return f
}

// waitingFirst lets kinds whose calls wait ask before those whose calls are new: however many come
// and are too late, the turns of the others are given in time. The Asker must be locked.
func (a *Asker) waitingFirst() {
	fresh := func(k *kind) bool { return k.queue.Light() }
	first := slices.IndexFunc(a.ready, fresh)
	if first < 0 || !slices.ContainsFunc(a.ready[first:], func(k *kind) bool { return !fresh(k) }) {
		return
	}
	slices.SortStableFunc(a.ready[first:], func(x, y *kind) int {
		switch {
		case fresh(x) == fresh(y):
			return 0
		case fresh(y):
			return -1
		default:
			return 1
		}
	})
}

// load1 takes in what a kind asks for, and reports whether there is more.
func (a *Asker) load1(f *flight, k *kind, t times, now time.Time, work *int) bool {
	most := max(1, (mostWork-*work)/workOfCall)
	light := k.queue.Light() && len(k.parts) == 1 && !k.need.Settles && k.need.Limit.Calm()
	if light {
		most = mostCalls
	}
	ask := k.queue.Next(now, t.ofQueue(), most)
	for _, p := range ask.Places {
		f.add(k, wire.Item{Count: 1, Number: p.Number}, p)
	}
	if ask.New > 0 {
		item := wire.Item{Count: ask.New, Number: a.number.Add(int64(ask.New)) - int64(ask.New) + 1}
		if latest := k.queue.Latest(ask.New); !latest.IsZero() && k.need.ID == "" && !k.need.Now {
			item.Latest = latest.Add(-margin(latest.Sub(now)))
		}
		f.add(k, item, nil)
	}
	if len(ask.Places)+ask.New > 0 && k.late > 0 { // else the reply would come too late again
		f.late, k.late = max(f.late, k.late), 0
	}
	a.loadAhead(f, k, now)
	calls := ask.New + len(ask.Places)
	f.calls += calls
	if light {
		*work += workOfLimit
	} else {
		*work += calls * workOfCall
	}
	return calls == most
}

// at is the index of a limit in the flight.
func (f *flight) at(l *wire.Limit) int {
	i, ok := f.index[l.Keys[0]]
	if !ok {
		i = len(f.limits)
		f.index[l.Keys[0]] = i
		f.limits = append(f.limits, l)
		f.back = append(f.back, "")
	}
	return i
}

func (f *flight) add(k *kind, item wire.Item, place *queue.Place) {
	item.Settles, item.Now, item.Flow, item.ID = k.need.Settles, k.need.Now, k.need.Flow, k.idOf(place)
	first := len(f.parts)
	for i, p := range k.parts {
		part := wire.Part{Limit: f.at(p.Limit), Cost: p.Cost}
		if place != nil {
			part.Tag = place.Tags[i]
			if place.Back != "" {
				f.back[part.Limit] = place.Back
			}
		}
		f.parts = append(f.parts, part)
	}
	item.Parts = f.parts[first:len(f.parts):len(f.parts)]
	f.items = append(f.items, item)
	f.asks = append(f.asks, ask{kind: k, place: place})
}

// call is the script call of a flight, now.
func (f *flight) call(a *Asker, caller wire.Caller) *wire.Call {
	c := &wire.Call{Caller: caller, Client: a.cfg.Client, Limits: f.limits, Back: f.back}
	a.sends(c)
	return c
}

// sends notes when a call leaves, and by which clock of Redis.
func (a *Asker) sends(c *wire.Call) {
	c.Now = time.Now()
	c.Clock = a.clock.redis(c.Now)
}

// again makes the flight fit to be sent once more, as its reply was lost: what it was given
// goes back, and who came since stands behind its calls, that were sent at a time of Redis.
func (f *flight) again(sent int64) {
	for j := range f.back {
		f.back[j] = f.caller.Ask()
	}
	for _, item := range f.items {
		for i, p := range item.Parts {
			if p.Tag == 0 && item.Ahead == 0 {
				item.Parts[i].Tag = sent
			}
		}
	}
}

// send takes a flight to Redis, and its answers to their calls. A flight serves many calls: no
// context of theirs ends it.
func (a *Asker) send(f *flight) {
	if len(f.left) > 0 {
		a.sendLeft(f)
	}
	if len(f.items) == 0 {
		a.lock()
		defer a.mu.Unlock()
		a.reuse(f)
		return
	}
	a.sureOf(f)
	call := f.call(a, f.caller)
	var answers []wire.Answers
	var reply wire.Reply
	var at time.Time
	var early time.Duration
	err := a.attempt(func() (err error) {
		if err = a.measure(f); err != nil {
			return err
		}
		call.Run = a.server()
		a.sends(call)
		f.sent = call.Now
		reply, answers, err = wire.Ask(context.Background(), call, f.items)
		if err == nil {
			at, early = a.arrive(call, &reply)
		} else {
			f.again(a.clock.redis(call.Now))
		}
		return err
	})
	a.lock()
	defer a.mu.Unlock()
	a.watch(Event{What: Asked, N: f.calls, Took: time.Since(call.Now), Err: err})
	if err != nil || !a.unsure(f) {
		a.take(f, answers, reply.Micros, at, early, err)
		return
	}
	a.held++
	go func() {
		err := a.hearKinds(f)
		a.lock()
		defer a.mu.Unlock()
		if !errors.Is(err, errAway) { // Redis takes no heartbeats, or the process ends
			err = nil
		}
		a.take(f, answers, reply.Micros, at, early, err)
		a.kick()
		if a.held--; a.held == 0 {
			a.quiet.Broadcast()
		}
	}()
}

// take takes in what a flight has brought, or why it has brought nothing. The Asker must be locked.
func (a *Asker) take(f *flight, answers []wire.Answers, micros int64, at time.Time, early time.Duration, err error) {
	now := time.Now()
	a.aboard -= f.calls
	switch {
	case errors.Is(err, errAway):
		for i, ask := range f.asks {
			a.lose(ask, f.items[i].Number, f.items[i].Count)
		}
		a.beAway()
	case err != nil:
		a.fail(f, err)
	default:
		for _, ask := range f.asks { // then their turns are nobody's, and go back
			a.refuse(ask.kind)
		}
		a.deliver(f, answers, micros, at, early)
		a.looks(f.limits)
	}
	t := a.clock.now(now)
	var last *kind
	for _, ask := range f.asks {
		if ask.kind != last {
			last = ask.kind
			last.queue.Overdue()
			a.plan(last, t, now)
		}
	}
	a.reuse(f)
}

// sureOf lets a heartbeat go before a flight that asks for slots, where the last one was answered
// too long ago: a process that counts as dead soon must not be given any.
func (a *Asker) sureOf(f *flight) {
	if !slices.ContainsFunc(f.limits, func(l *wire.Limit) bool { return l.Kind == "s" }) {
		return
	}
	a.lock()
	defer a.mu.Unlock()
	for _, l := range f.limits {
		if l.Kind == "s" {
			a.audits(l)
		}
	}
	if time.Since(a.answered) > trusted {
		a.unmet.Store(true)
	}
}

// arrive notes a reply, and returns when it should have arrived, and by how much that may be
// early.
func (a *Asker) arrive(call *wire.Call, reply *wire.Reply) (at time.Time, early time.Duration) {
	at, early = a.clock.arrival(reply.Micros, call.Way, call.Now, time.Now())
	call.Learn(reply, at)
	return at, early
}

// limitsOf returns the limits of a call, each once.
func limitsOf(parts []Part) (limits []*wire.Limit) {
	for _, p := range parts {
		if !slices.Contains(limits, p.Limit) {
			limits = append(limits, p.Limit)
		}
	}
	return limits
}
