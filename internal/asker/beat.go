package asker

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

const (
	every = time.Second      // about: a heartbeat
	idle  = 10 * time.Second // after which none is needed, if nobody waits
)

// beat begins to tell Redis that the process lives, if it does not yet. The Asker must be
// locked.
func (a *Asker) beat() {
	if a.beating || a.cfg.Heartbeat.Keys == nil {
		return
	}
	a.beating = true
	a.busy.Go(func() {
		for known := false; ; {
			pulse, err := wire.Beat(context.Background(), a.cfg.Heartbeat)
			if err == nil {
				a.felt(pulse, known)
				known = true
			}
			timer := time.NewTimer(time.Duration((0.75 + rand.Float64()/2) * float64(every)))
			select {
			case <-timer.C:
			case <-a.soon:
				timer.Stop()
			case <-a.life.Done():
				timer.Stop()
				return
			}
			if a.resting() {
				return
			}
		}
	})
}

// resting ends the heartbeat if nobody needs it.
func (a *Asker) resting() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.kinds) > 0 || time.Since(a.used) < idle {
		return false
	}
	a.beating = false
	return true
}

// felt notes what Redis says to a heartbeat. Where it does not know a process that it knew,
// its data was lost.
func (a *Asker) felt(p wire.Pulse, known bool) {
	rank := int64(0)
	if p.Limit == a.cfg.Heartbeat.Limit {
		rank = p.Rank
	}
	a.rank.Store(rank)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.alive = p.Alive
	if p.Run != "" {
		a.run = p.Run
	}
	if known && !p.Known {
		a.lost = time.Now()
	}
}

// hurry lets the next heartbeat come at once.
func (a *Asker) hurry() {
	select {
	case a.soon <- struct{}{}:
	default:
	}
}
