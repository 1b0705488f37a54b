package meter

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Result is how a call ended.
type Result int

// The ways in which calls end.
const (
	AtOnce         Result = iota // it had its turn when it asked
	Waited                       // it had its turn later
	NotNow                       // it did not want to wait
	MissedDeadline               // its turn would have come too late
	GivenUp                      // its context ended, or it was cancelled
	Unavailable                  // Redis was unreachable, and the policy lets calls fail
	Closed                       // its limiter was closed
	Failed                       // Redis refused it
	results
)

var resultNames = [results]string{"at_once", "waited", "not_now", "missed_deadline", "given_up", "unavailable", "closed", "failed"}

// String is the value of the attribute fleetpace.result.
func (r Result) String() string { return resultNames[r] }

// Number is a count of something else than the ways in which calls end.
type Number int

// The numbers.
const (
	Further  Number = iota // permits that calls have used beyond one each
	Alone                  // calls that were let through while Redis was unreachable
	Outages                // of Redis, while calls needed the limit
	Lapsed                 // turns that expired before their calls used them
	Unused                 // turns that calls got, and did not use
	Voided                 // turns that were revoked, by a pause for example
	Pauses                 // that this process has made
	Stops                  // hard stops that this process has made
	Changes                // limits that this process has set or reset
	Reserved               // permits that settled calls had reserved
	Settled                // permits that they used in fact
	numbers
)

// LimitKey is the attribute that names a limit.
const LimitKey = attribute.Key("fleetpace.limit")

const resultKey = attribute.Key("fleetpace.result")

// Limit counts what happens to the calls of a limit, whatever their keys. It is safe for
// concurrent use; a nil one counts nothing.
type Limit struct {
	name     string
	numbers  [numbers]atomic.Int64
	results  [results]atomic.Int64
	all      []metric.ObserveOption // for the numbers
	byResult [results][]metric.ObserveOption
	recorded []metric.RecordOption
	ended    [results][]metric.RecordOption
}

// limits are the limits of this process, including limits of closed limiters, so that sums do not fall.
var limits = struct {
	sync.Mutex
	byName map[string]*Limit
}{byName: map[string]*Limit{}}

// Named returns the Limit with a name. A limit in a group has the name of the group and a slash before it.
func Named(group, name string) *Limit {
	if group != "" {
		name = group + "/" + name
	}
	begin()
	limits.Lock()
	defer limits.Unlock()
	l := limits.byName[name]
	if l == nil {
		l = newLimit(name)
		limits.byName[name] = l
	}
	return l
}

func newLimit(name string) *Limit {
	l := &Limit{name: name}
	set := metric.WithAttributeSet(attribute.NewSet(LimitKey.String(name)))
	l.all, l.recorded = []metric.ObserveOption{set}, []metric.RecordOption{set}
	for r := range results {
		set := metric.WithAttributeSet(attribute.NewSet(LimitKey.String(name), resultKey.String(r.String())))
		l.byResult[r], l.ended[r] = []metric.ObserveOption{set}, []metric.RecordOption{set}
	}
	return l
}

// String is the name of the limit, as in its attribute.
func (l *Limit) String() string { return l.name }

// Ended counts calls that ended in one way.
func (l *Limit) Ended(r Result, calls int) {
	if l != nil {
		l.results[r].Add(int64(calls))
	}
}

// Add adds to a number.
func (l *Limit) Add(n Number, by int64) {
	if l != nil {
		l.numbers[n].Add(by)
	}
}

// Count returns a number.
func (l *Limit) Count(n Number) int64 { return l.numbers[n].Load() }

// InQueue records how long a call waited, and how it ended. If the call had its turn, late is how long
// after the moment of the turn it continued.
func (l *Limit) InQueue(r Result, waited, late time.Duration) {
	if l == nil {
		return
	}
	in.inQueue.Record(context.Background(), waited.Seconds(), l.ended[r]...)
	if r == Waited {
		in.delay.Record(context.Background(), max(0, late.Seconds()), l.recorded...)
	}
}

// Held records how long a call held its slots.
func (l *Limit) Held(d time.Duration) {
	if l != nil {
		in.held.Record(context.Background(), d.Seconds(), l.recorded...)
	}
}
