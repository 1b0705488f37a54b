package asker

import (
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/internal/queue"
)

// waiter is a call of this process, and what it needs.
type waiter struct {
	*queue.Call
	need Need
	kind *kind // since it was let in
}

// door is where calls come in. Those that come while a flight is under way wait there until it
// is back, so that thousands of them do not compete for the Asker's lock with it.
type door struct {
	mu      sync.Mutex
	came    []*waiter // not let in yet
	room    []*waiter // for those who come next
	watched bool      // a flight is under way, and lets in who came
}

// enter takes a call, and reports whether somebody has to let it in.
func (d *door) enter(w *waiter) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.came = append(d.came, w)
	return !d.watched && len(d.came) == 1 || len(d.came) == crowd
}

// empty returns those who came.
func (d *door) empty() []*waiter {
	d.mu.Lock()
	defer d.mu.Unlock()
	came := d.came
	if len(came) > 0 {
		d.came, d.room = d.room, nil
	}
	return came
}

// back takes the room of those who were let in.
func (d *door) back(came []*waiter) {
	clear(came)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room = came[:0]
}

// watch notes whether a flight will let calls in, and reports whether some have come.
func (d *door) watch(watched bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watched = watched
	return len(d.came) > 0
}

// lock locks the Asker, and lets in who has come.
func (a *Asker) lock() {
	a.mu.Lock()
	a.letIn()
}

// letIn lets calls join the queues of their kinds. The Asker must be locked.
func (a *Asker) letIn() {
	came := a.door.empty()
	if len(came) == 0 {
		return
	}
	now := time.Now()
	var k *kind
	for _, w := range came {
		if a.closed || w.need.ended() {
			w.Tell(queue.Event{Err: a.cfg.Errors.Closed})
			continue
		}
		if a.turnAway(w, now) || a.refuses(w, now) {
			continue
		}
		if k == nil || !k.is(&w.need) {
			k = a.kind(&w.need)
			a.beat(k.parts, now)
		}
		w.kind = k
		k.queue.Join(w.Call, now)
		if k.ready {
			continue
		}
		if k.queue.Gathers() {
			a.plan(k, a.clock.now(now), now)
		} else {
			a.wants(k)
		}
	}
	a.door.back(came)
	if k == nil {
		return
	}
	a.listen()
	if a.away != nil {
		select {
		case a.joined <- struct{}{}:
		default:
		}
	}
}

// join lets a call wait. It reports whether the caller is to make a flight itself, as it has
// nothing else to do.
func (a *Asker) join(w *waiter, idle bool) bool {
	if !a.door.enter(w) {
		return false
	}
	a.lock()
	defer a.mu.Unlock()
	if idle && a.flights == 0 && len(a.ready) == 1 && a.away == nil {
		a.begin()
		return true
	}
	a.kick()
	return false
}

// begin notes that a flight begins. The Asker must be locked.
func (a *Asker) begin() {
	a.flights++
	a.door.watch(!a.distant())
}

// land notes that a flight is over. The Asker must be locked.
func (a *Asker) land() {
	if a.flights--; a.flights == 0 {
		a.quiet.Broadcast()
	}
	if a.door.watch(a.flights > 0 && !a.distant()) && a.flights == 0 {
		a.letIn()
		a.kick()
	}
}
