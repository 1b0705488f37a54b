package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fleetpace/fleetpace/internal/wire"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// Why says what holds calls back, in a word for programs.
type Why string

// The reasons, the most important first.
const (
	WhyAway      Why = "away"      // Redis does not answer
	WhyNoWrites  Why = "no_writes" // Redis refuses to write, because it is full, a replica, or cannot save
	WhyCorrupt   Why = "corrupt"   // a key holds other data than it should
	WhyKind      Why = "kind"      // calls of some processes fail, because a limit of another kind is in force
	WhyVersion   Why = "version"   // calls of some processes fail, because processes of another version use the limit
	WhyStopped   Why = "stopped"   // calls fail, as after a hard stop
	WhyPaused    Why = "paused"    // no call has a turn until the pause ends
	WhyNobody    Why = "nobody"    // calls wait or are booked, and no process is alive to make them
	WhySlots     Why = "slots"     // all slots are held
	WhyHeldBy    Why = "held_by"   // the calls wait for another limit
	WhyUsedUp    Why = "used_up"   // the quota or rolling limit is used up
	WhySet       Why = "set"       // an override is slower than the configured limit, and calls wait
	WhyDiffer    Why = "differ"    // processes are configured with different limits, and calls wait
	WhySilent    Why = "silent"    // calls wait, and heartbeats are late: soon it is known whether a process is alive
	WhyFlow      Why = "flow"      // one flow has nearly all calls that wait, and others wait, too
	WhyQueue     Why = "queue"     // other calls are ahead
	WhyBooked    Why = "booked"    // rescheduled tasks come back later; a new call would have its turn now
	WhyAvailable Why = "available" // nothing: a call would have its turn now
	WhyIdle      Why = "idle"      // no process has used the limit for ten minutes
)

// Answer says why calls of a limit wait.
type Answer struct {
	Limit    string   `json:"limit"`
	Key      string   `json:"key,omitempty"`
	Reason   Why      `json:"reason"`
	Title    string   `json:"title"`          // the reason in a few words
	Text     string   `json:"text"`           // a sentence
	More     string   `json:"more,omitempty"` // further sentences
	Severity Severity `json:"severity"`
	Also     []Why    `json:"also,omitempty"`
	Evidence []string `json:"evidence"`

	// Do says what to do, and Command is the command for it. Both may be empty.
	Do      string `json:"do,omitempty"`
	Command string `json:"command,omitempty"`

	// Held is how many calls are held back, waiting or booked. For one booking it is 1. It is 0 if
	// a call would be held back but there is no call.
	Held int64 `json:"held"`
}

// Away is the answer if the Redis at an address does not answer.
func (r *Reader) Away(limit, at string, err error) *Answer {
	a := &Answer{Limit: limit, Reason: WhyAway, Title: WhyAway.title(0), Severity: SeverityStop,
		Text: fmt.Sprintf("Redis at %s does not answer this command; if it is the fleet's Redis, each process follows its outage policy.", at), Evidence: []string{err.Error()}}
	a.Do, a.Command = (&Look{Survey: &Survey{flags: r.Flags}}).mend(WhyAway, nil)
	return a
}

// Refused is the answer if Redis refuses to write, or nil. Then the processes of a fleet that starts are not known.
func (r *Reader) Refused(ctx context.Context) *Answer {
	_, err := r.tries(ctx, Name{Name: "any"})
	if err == nil {
		return nil
	}
	a := &Answer{Evidence: []string{}}
	(&Look{Survey: &Survey{flags: r.Flags}}).answer(a, noWrites(err), &Row{}, nil)
	return a
}

// Explain says why calls of a limit wait. `which` is a key, or a part of the ID of a booking; empty
// means the whole limit. Errors are those of Redis, ErrUnknown, and that of an invalid key.
func (r *Reader) Explain(ctx context.Context, n Name, which string) (*Answer, error) {
	a := &Answer{Limit: n.String(), Key: which, Evidence: []string{}}
	look, err := r.look(ctx, n, 1, true, which)
	switch {
	case errors.Is(err, reserve.ErrCorrupt): // the processes' reports
		look = &Look{Survey: &Survey{Name: n}}
		look.answer(a, reason{why: WhyCorrupt, text: corrupt(err)}, &Row{Err: err}, nil)
		return a, nil
	case err != nil:
		return nil, err
	case len(look.Rows) == 0:
		if names, err := r.Names(ctx); err != nil || !slices.Contains(names, n) {
			return nil, cmp.Or(err, fmt.Errorf("%w: %q (%s)", ErrUnknown, n, r.known(names)))
		}
		of := look.nobody()
		of.Key, of.Evidence = which, []string{}
		return &of, nil
	}
	row := &look.Rows[0]
	if errors.Is(row.Err, reserve.ErrInvalid) {
		return nil, row.Err
	}
	booked, err := r.booking(ctx, n, look, &row, which)
	switch {
	case errors.Is(err, reserve.ErrCorrupt):
		look = &Look{Survey: &Survey{Name: n}}
		look.answer(a, reason{why: WhyCorrupt, text: corrupt(err)}, &Row{Err: err}, nil)
		return a, nil
	case err != nil:
		return nil, err
	}
	if which == "" {
		row = look.busiest(ctx, r, n, row)
	}
	reasons := look.reasons(row, booked)
	if which != "" && booked == nil && row.Calls == 0 && row.Used == 0 && reasons[0].why == WhyAvailable {
		if there, err := r.there(ctx, n, look, which); err != nil {
			return nil, err
		} else if !there {
			reasons[0].text = fmt.Sprintf("Nothing is known of %q: no key that was used lately, and no booking. A call with that key would have its turn now.", which)
		}
	}
	look.answer(a, reasons[0], row, booked)
	for _, other := range reasons[1:] {
		if look.refuses != nil && (other.why == WhyQueue || other.why == WhyFlow || other.why == WhySilent) {
			continue // it counts with heartbeats and turns, and Redis takes none
		}
		if other.why != WhyQueue && other.why != WhyAvailable {
			a.Also = append(a.Also, other.why)
		}
		if !strings.Contains(a.Text+a.More, other.text) {
			a.Evidence = append(a.Evidence, other.text)
		}
	}
	a.Evidence = append(a.Evidence, look.evidence(row)...)
	if which == "" && a.Key != "" {
		a.Evidence = append(a.Evidence, fmt.Sprintf("this is of the key %q, which has the most to do", plain(a.Key)))
	}
	return a, nil
}

// held is how many calls are held back for a reason. If the state cannot be read, it is how many
// calls the processes report.
func held(row *Row, booked *Booked, why Why) int64 {
	switch {
	case why == WhyAvailable, why == WhyKind, why == WhyVersion: // calls that fail do not wait, and waiting calls are not held back
		return 0
	case booked != nil:
		return 1
	case why == WhyNobody:
		return max(row.State.Waiting, row.lost()) + row.State.Booked
	}
	return max(row.State.Waiting, int64(row.Calls)) + row.State.Booked
}

// lost is how many calls waited when their processes last reported, if none of these lives. It is 0 if all may have had
// their turns since. Redis itself counts calls that wait for slots, for longer than it keeps reports.
func (row *Row) lost() int64 {
	if row.Own.Kind() == reserve.KindSlots || float64(row.left) <= row.Rate*lateIdle.Seconds() {
		return 0
	}
	return int64(row.left)
}

// there reports whether Redis has a state for a key.
func (r *Reader) there(ctx context.Context, n Name, look *Look, key string) (bool, error) {
	limit, err := look.InForce()
	if err != nil {
		return false, err
	}
	count, err := r.client.Exists(ctx, lua.Keys(r.prefix, n.Group, n.Name, wire.Kinds[limit.Kind()].Letter, key)[0]).Result()
	return count > 0, classified("look for a state", err)
}

// booking finds the booking of an ID, and sets row to the row of its key.
func (r *Reader) booking(ctx context.Context, n Name, look *Look, row **Row, which string) (*Booked, error) {
	if which == "" || slices.ContainsFunc(look.Keys, func(q Queue) bool { return q.Key == which }) {
		return nil, nil
	}
	limit, err := look.InForce()
	if err != nil {
		return nil, err
	}
	keys := []string{""}
	for _, q := range look.Keys {
		if q.Key != "" {
			keys = append(keys, q.Key)
		}
	}
	for _, key := range keys {
		booked, err := r.Booked(ctx, n, wire.Kinds[limit.Kind()].Letter, key, which)
		if err != nil {
			return nil, err
		}
		if booked != nil {
			of, err := r.look(ctx, n, 1, false, key)
			if err != nil || len(of.Rows) == 0 {
				return nil, err
			}
			*row = &of.Rows[0]
			return booked, nil
		}
	}
	return nil, nil
}

// busiest returns the row of the key with the most waiting calls, if no calls without a key wait.
func (l *Look) busiest(ctx context.Context, r *Reader, n Name, row *Row) *Row {
	if row.Waiting > 0 || row.Booked > 0 || row.Calls > 0 || row.lost() > 0 || row.Paused || row.Err != nil {
		return row
	}
	all, err := r.look(ctx, n, 1, false)
	if err != nil || len(all.Rows) == 0 || row.Used > 0 && int64(all.Rows[0].Calls)+all.Rows[0].lost() == 0 {
		return row
	}
	return &all.Rows[0]
}

// IsAway reports whether an error says that Redis does not answer.
func IsAway(err error) bool {
	return errors.Is(err, reserve.ErrUnavailable) && !errors.Is(err, context.Canceled)
}
