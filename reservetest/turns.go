package reservetest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fleetpace/fleetpace/internal/observe"
)

// Turn is what a call had of one limit. A call that needs several limits has one Turn of each.
type Turn struct {
	At    time.Time // when the call was let through
	Limit string    // name of the limit, and the key after a slash: see [reserve.Limiter.String]
	Cost  int       // permits
}

// RecordTurns records which calls have their turns, from now to the end of the test, whatever
// lets them through: a limiter, a worker, a transport. The function that it returns gives the
// turns so far, in the order of their moments. It is safe for concurrent use. A turn whose call
// was not made after all ([reserve.Reservation.Book]) does not count.
//
// It sees all that this process does. So it ends a test that is parallel, or that records twice.
// [API.Requests] works in parallel tests, too.
func RecordTurns(t testing.TB) (turns func() []Turn) {
	t.Helper()
	needAlone(t)
	if observe.On() {
		t.Fatal("reservetest: RecordTurns: turns are recorded already")
	}
	r := &record{}
	observe.Turns(r.report)
	t.Cleanup(func() { observe.Turns(nil) })
	return r.turns
}

// needAlone ends a test that is parallel. Setenv can tell.
func needAlone(t testing.TB) {
	t.Helper()
	defer func() {
		t.Helper()
		if recover() != nil {
			t.Fatal("reservetest: RecordTurns: must not be used in a parallel test, as it would record turns of others")
		}
	}()
	t.Setenv("FLEETPACE_RECORD_TURNS", "1")
}

// record is what was reported.
type record struct {
	mu   sync.Mutex
	used []observe.Turn
}

func (r *record) report(turn observe.Turn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !turn.Unused {
		r.used = append(r.used, turn)
		return
	}
	turn.Unused = false
	if i := slices.Index(r.used, turn); i >= 0 {
		r.used = slices.Delete(r.used, i, i+1)
	}
}

func (r *record) turns() []Turn {
	r.mu.Lock()
	defer r.mu.Unlock()
	turns := make([]Turn, len(r.used))
	for i, t := range r.used {
		turns[i] = Turn{At: t.Given, Limit: t.Limit, Cost: int(t.Cost)}
	}
	slices.SortStableFunc(turns, func(a, b Turn) int { return a.At.Compare(b.At) })
	return turns
}
