package fleet

import (
	"context"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// Line is the state of a limit with all its keys.
type Line struct {
	Name       string  `json:"name"`
	Group      string  `json:"group,omitempty"`
	Limit      string  `json:"limit"`
	Waiting    int64   `json:"waiting"`
	Oldest     float64 `json:"oldest"` // seconds
	Booked     int64   `json:"booked"`
	Paused     bool    `json:"paused"`              // one of its keys is paused or stopped
	Stopped    bool    `json:"stopped,omitempty"`   // one of its keys is stopped: calls fail
	PausedFor  float64 `json:"pausedFor,omitempty"` // seconds that the pause or stop still lasts; 86,400 at most where the end of a stop is not known
	Reason     string  `json:"reason,omitempty"`
	PausedKeys int     `json:"pausedKeys,omitempty"` // how many of the ReadKeys are paused or stopped
	ReadKeys   int     `json:"readKeys"`             // the keys whose states were read: the busiest ones
	Set        bool    `json:"set"`                  // some key has an override
	Own        string  `json:"configured,omitempty"` // the configured limit, if calls without a key have an override
	Held       int     `json:"held"`
	Keys       int     `json:"keys"`
	Processes  int     `json:"processes"`
	Dead       int     `json:"dead,omitempty"`    // processes that died in the last ten minutes
	Perhaps    int     `json:"perhaps,omitempty"` // processes that may be alive, if none is known to be: Redis took no heartbeats
	PerSecond  float64 `json:"perSecond"`         // recent calls per second; 0 before the second reading
	Allowed    float64 `json:"allowed"`           // permits per second: the sum over keys with waiting calls, or one key; 0 for slots
	Slots      int64   `json:"slots,omitempty"`
	HeldFor    float64 `json:"heldFor,omitempty"` // seconds for which a call has held its slots, at most
	Differ     bool    `json:"differ,omitempty"`  // processes are configured with different limits
	Failing    int     `json:"failing,omitempty"` // processes whose calls fail: see Survey.Unfit
	Error      string  `json:"error,omitempty"`

	HeldCalls     int64   `json:"heldCalls,omitempty"`     // waiting or booked calls that a pause, a used-up quota or another limit holds back
	OldestNotHeld float64 `json:"oldestNotHeld,omitempty"` // seconds that the oldest waiting call has waited, without calls that are held back
	Unclaimed     int64   `json:"unclaimed,omitempty"`     // calls that could be made, but no live process makes them
	MustWait      bool    `json:"mustWait,omitempty"`      // calls wait for the end of a pause or for the next window of a quota, here or at another limit

	heldBy []string        // the other limits of the group that hold calls back, with their keys
	must   map[string]bool // the keys whose calls must wait

	Why     Answer  `json:"why"` // what holds back the calls of the key that is worst
	Busiest Busiest `json:"busiest"`
}

// ID is the name of the line's limit, in the form that Find reads.
func (l *Line) ID() string { return Name{l.Name, l.Group}.String() }

// Lines returns the lines of all limits. For each it reads the states of up to `keys` keys, and
// with rates the calls per second since the last reading.
func (r *Reader) Lines(ctx context.Context, keys int, rates *Rates) ([]Line, error) {
	names, err := r.Names(ctx)
	if err != nil {
		return nil, err
	}
	lines := []Line{}
	full := true // found at the first limit: see Reader.tries
	for _, n := range names {
		look, err := r.look(ctx, n, keys, full)
		if err != nil {
			return nil, err
		}
		full = look.refuses != nil
		lines = append(lines, look.Line(rates))
	}
	must := map[Name]bool{}
	for i := range lines {
		for key := range lines[i].must {
			name := lines[i].Name
			if key != "" {
				name += "/" + key
			}
			must[Name{name, lines[i].Group}] = true
		}
	}
	for i := range lines {
		l := &lines[i]
		l.MustWait = l.MustWait || slices.ContainsFunc(l.heldBy, func(other string) bool { return must[Name{other, l.Group}] })
	}
	return lines, nil
}

// Line sums up a look.
func (l *Look) Line(rates *Rates) Line {
	sum := Line{Name: l.Name.Name, Group: l.Group, Limit: l.Limit, Keys: len(l.Keys), Processes: l.Living(), Dead: l.Dead(), Perhaps: l.perhaps(), Differ: len(l.Differ) > 0}
	must := map[string]bool{}
	sum.ReadKeys = len(l.Rows)
	for i := range l.Rows {
		if l.Rows[i].Paused {
			sum.PausedKeys++
		}
		if l.Rows[i].Paused || l.Rows[i].usedUp() {
			must[l.Rows[i].Key] = true
		}
	}
	sum.must, sum.MustWait = must, len(must) > 0
	for _, k := range l.Keys {
		sum.Oldest = max(sum.Oldest, k.Oldest)
		if k.HeldBack > 0 {
			sum.heldBy = append(sum.heldBy, k.HeldBy)
		}
		switch held := k.HeldBack + k.HeldElse; {
		case must[k.Key]: // all its calls are held back; they are counted below
		case held < k.Calls:
			sum.OldestNotHeld = max(sum.OldestNotHeld, k.Oldest)
			fallthrough
		default:
			sum.HeldCalls += int64(held)
		}
	}
	most := 0.0
	for i := range l.Rows {
		row := &l.Rows[i]
		sum.Waiting, sum.Booked, sum.Held = sum.Waiting+row.Waiting, sum.Booked+row.Booked, sum.Held+row.Held
		sum.Set = sum.Set || row.Set
		if must[row.Key] {
			sum.HeldCalls += max(row.Waiting, int64(row.Calls)) + row.Booked
		}
		switch {
		case row.Paused, l.Alive() > 0:
		case row.Wait <= 0: // permits are available
			sum.Unclaimed += row.Booked
			fallthrough
		default: // a process whose calls are all booked for later may send no heartbeats, so only waiting calls count
			sum.Unclaimed += max(row.Waiting, row.lost())
		}
		if stopped := row.State.Stopped; row.Paused && (!sum.Paused || stopped && !sum.Stopped) {
			sum.Paused, sum.PausedFor, sum.Reason, sum.Stopped = true, row.State.Paused.Seconds(), row.Reason, stopped
		}
		if row.Error != "" {
			sum.Error = row.Error
			continue
		}
		if row.Key == "" && row.Set {
			sum.Limit, sum.Own = row.Limit, row.Own.String()
		}
		most = max(most, sum.allow(row))
	}
	if sum.Allowed == 0 {
		sum.Allowed = most
	}
	sum.Waiting, sum.Booked = sum.Waiting+l.left.waiting, sum.Booked+l.left.booked
	sum.Unclaimed += l.left.waiting + l.left.booked
	sum.Waiting = max(sum.Waiting, int64(l.Waiting()))
	var byKey map[string]Rate
	if rates != nil {
		byKey = rates.ByKey(l.Survey)
		for _, rate := range byKey {
			sum.PerSecond += rate.Calls
		}
	}
	for i := range l.Rows {
		sum.uses(&l.Rows[i], byKey)
	}
	if l.refuses != nil && sum.Error == "" {
		sum.Error = noWrites(l.refuses).text
	}
	sum.Why = l.worst()
	sum.Why.Evidence = []string{}
	if failing := l.Unfit(); failing != nil {
		sum.Failing = len(failing)
		if sum.Error == "" {
			sum.Error = l.unfit(failing).text
		}
	}
	return sum
}

// queues is the longest window of a quota whose calls count as a queue: alerts judge what happens in five minutes.
const queues = 5 * time.Minute

// usedUp reports whether less than a usual call costs is left of a quota or rolling limit, so that
// calls wait for another window.
func (row *Row) usedUp() bool {
	kind := row.State.Limit.Kind()
	if row.Err != nil || kind != reserve.KindQuota && kind != reserve.KindRolling || row.Waiting+row.Booked == 0 {
		return false
	}
	usual := max(1, float64(row.Permits)/max(1, float64(row.Used)))
	return row.State.Stored < usual && float64(row.State.Burst) > queues.Seconds()*row.Rate
}

// Busiest is how much of its limit the busiest key uses. Its unit is permits per second of a rate, permits of the window of
// a quota or rolling limit, or slots.
type Busiest struct {
	Key  string  `json:"key,omitempty"`
	Used float64 `json:"used"`
	Of   float64 `json:"of"` // 0: unknown
	Unit string  `json:"unit,omitempty"`
}

// Share is how much of the limit is used, from 0 to 1.
func (b *Busiest) Share() float64 {
	if b.Of <= 0 {
		return 0
	}
	return max(0, min(1, b.Used/b.Of))
}

// uses takes in how much of the limit a row uses, if that is more than other rows use.
func (l *Line) uses(row *Row, byKey map[string]Rate) {
	if row.Err != nil {
		return
	}
	of := Busiest{Key: row.Key, Of: float64(row.State.Burst)}
	switch row.State.Limit.Kind() {
	case reserve.KindSlots:
		of.Used, of.Unit = float64(row.Held), " slots"
	case reserve.KindQuota, reserve.KindRolling:
		of.Used = max(0, of.Of-row.State.Stored)
	default:
		of.Used, of.Of, of.Unit = min(byKey[row.Key].Steady, row.Rate), row.Rate, "/s"
	}
	if l.Busiest.Of == 0 || of.Share() > l.Busiest.Share() {
		l.Busiest = of
	}
}

// allow adds what the limit of a row allows, and returns its rate.
func (l *Line) allow(row *Row) (perSecond float64) {
	if row.State.Limit.Kind() != reserve.KindSlots {
		if row.Waiting > 0 || row.Calls > 0 {
			l.Allowed += row.Rate
		}
		return row.Rate
	}
	l.Slots += int64(row.Rate)
	for _, h := range row.State.Holders {
		l.HeldFor = max(l.HeldFor, time.Since(h.Since).Seconds())
	}
	return 0
}
