package reserve

import (
	"context"
	"time"
)

const (
	// oversleep is by how much a call may be late, beyond what its permits allow,
	// before its turn counts as missed: what timers and schedulers do to a
	// process that runs.
	oversleep = 20 * time.Millisecond

	// suspension is by how much the wall clock may run ahead of the monotonic
	// one, which stands still while a machine sleeps.
	suspension = time.Second
)

// overslept reports whether the turn of a final ticket was overslept: its permits
// are gone, and calling now would come on top of the calls of others.
func (t *ticket) overslept(now time.Time) bool {
	if now.Sub(t.due)+t.since+t.unsure > t.slack+oversleep {
		return true
	}
	return now.Round(0).Sub(t.given.Round(0))-now.Sub(t.given) > suspension
}

// slow reports whether a turn that is slept through is worth a round trip: the next one is
// so far away that nobody has it yet. Numbers of such a line are taken so that Redis knows
// their IDs. Then one whose turn was slept through goes back, or, where others stand behind
// it, waits again under the number that it had, and the line goes back to it however late
// that is, unless a later one was let through. The line must be locked.
func (l *line) slow() bool { return l.core.slow(l.terms()) }

func (c *core) slow(t terms) bool { return c.cfg.Lease == 0 && t.step(1) >= c.lead() }

// waitAgain lets tickets wait whose turns were slept through.
func (l *line) waitAgain(ctx context.Context, tickets []*ticket) {
	var late []*ticket
	for _, t := range tickets {
		if t.back {
			late = append(late, t)
		}
	}
	if len(late) == 0 {
		return
	}
	const byID = 0 // asking twice changes nothing
	l.mu.Lock()
	from := l.main()
	l.mu.Unlock()
	err := l.attempt(ctx, from, byID, nil, func(who caller) error {
		_, err := l.core.cancel(ctx, l.keys, who, late)
		return err
	})
	for _, t := range late {
		t.back = err != nil
	}
}
