package reservetest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fleetpace/fleetpace/internal/observe"
)

// Turn is one call's turn at one limit. A call that needs several limits has a Turn for each.
type Turn struct {
	At    time.Time // when the call was let through
	Limit string    // the name of the limit, with its key after a slash: see [reserve.Limiter.String]
	Cost  int       // permits
}

// RecordTurns records the turns of calls until the end of the test, whatever waits for them: a
// limiter, a worker, a transport. The function that it returns gives the turns so far, in order of
// time. It is safe for concurrent use. A turn does not count if its call was not made
// ([reserve.Reservation.PutBack]).
//
// It records all turns of this process. So it ends a parallel test, and a test that records twice.
// [API.Requests] also works in parallel tests.
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

// needAlone ends a parallel test: Setenv panics in one.
func needAlone(t testing.TB) {
	t.Helper()
	defer func() {
		t.Helper()
		if recover() != nil {
			t.Fatal("reservetest: RecordTurns: must not be used in a parallel test, because it would record the turns of other tests")
		}
	}()
	t.Setenv("FLEETPACE_RECORD_TURNS", "1")
}

// record holds the turns that were reported.
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
