package reserve

import "time"

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
	if now.Sub(t.due)+t.since > t.slack+oversleep {
		return true
	}
	return now.Round(0).Sub(t.given.Round(0))-now.Sub(t.given) > suspension
}
