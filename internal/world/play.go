package world

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

// The client would log every connection that it can not have.
func init() { logging.Disable() }

// play lets a history happen, with clients of today and scripts into which a mistake may be planted.
func play(t *testing.T, p *plan, telling bool, wrong func(string) string) *world {
	var w *world
	synctest.Test(t, func(*testing.T) {
		time.Sleep(p.clock) // the time of day at which a bubble begins is midnight
		w = newWorld(p, newClient)
		w.telling = telling
		w.server.wrong = wrong
		w.run()
	})
	return w
}

// run is the time of a world in a bubble of testing/synctest. Clients run in goroutines of their own,
// and lock the world while they do something to it.
func (w *world) run() {
	w.Lock()
	for !w.over && !w.stuck() {
		if w.done() && !w.resting {
			w.rest()
		}
		next, _ := w.next()
		w.Unlock()
		timer := time.NewTimer(time.Until(w.began.Add(next)))
		select {
		case <-timer.C:
		case <-w.sooner:
			timer.Stop()
		}
		w.Lock()
		w.play()
	}
	w.judge()
	close(w.closed)
	for _, p := range w.processes {
		p.end()
	}
	w.Unlock()
	w.busy.Wait()
	w.server.scripts.close()
}

// Lock begins what somebody does to the world now.
func (w *world) Lock() {
	w.mu.Lock()
	w.now = max(w.now, time.Since(w.began))
}

// Unlock ends it.
func (w *world) Unlock() { w.mu.Unlock() }
