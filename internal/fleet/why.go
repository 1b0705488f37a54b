package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/fleetpace/fleetpace/internal/wire"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// Why says what holds calls back, in a word for programs.
type Why string

// The reasons, the most important first.
const (
	WhyAway      Why = "away"      // Redis does not answer
	WhyCorrupt   Why = "corrupt"   // a key holds other data than it should
	WhyKind      Why = "kind"      // calls of some processes fail, because a limit of another kind is in force
	WhyPaused    Why = "paused"    // no call has a turn until the pause ends
	WhyNobody    Why = "nobody"    // calls wait or are booked, and no process is alive to make them
	WhySlots     Why = "slots"     // all slots are held
	WhyHeldBy    Why = "held_by"   // the calls wait for another limit
	WhyUsedUp    Why = "used_up"   // the quota or rolling limit is used up
	WhySet       Why = "set"       // an override is slower than the configured limit, and calls wait
	WhyDiffer    Why = "differ"    // processes are configured with different limits, and calls wait
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
	Text     string   `json:"text"` // a sentence
	Also     []Why    `json:"also,omitempty"`
	Evidence []string `json:"evidence"`

	// Held is how many calls are held back, waiting or booked. For one booking it is 1. It is 0 if
	// a call would be held back but there is no call.
	Held int64 `json:"held"`
}

// Away is the answer if Redis does not answer.
func Away(limit string, err error) *Answer {
	return &Answer{Limit: limit, Reason: WhyAway, Text: "Redis does not answer, so each process follows its outage policy.",
		Evidence: []string{err.Error()}}
}

// Explain says why calls of a limit wait. `which` is a key, or a part of the ID of a booking; empty
// means the whole limit. Errors are those of Redis, ErrUnknown, and that of an invalid key.
func (r *Reader) Explain(ctx context.Context, n Name, which string) (*Answer, error) {
	a := &Answer{Limit: n.String(), Key: which, Evidence: []string{}}
	look, err := r.Look(ctx, n, 1, which)
	switch {
	case errors.Is(err, reserve.ErrCorrupt): // the processes' reports
		a.Reason, a.Text = WhyCorrupt, corrupt(err)
		return a, nil
	case err != nil:
		return nil, err
	case len(look.Rows) == 0:
		if names, err := r.Names(ctx); err != nil || !slices.Contains(names, n) {
			return nil, cmp.Or(err, fmt.Errorf("%w: %q (there are: %s)", ErrUnknown, n, listed(names)))
		}
		a.Reason, a.Text = WhyIdle, "No process has used the limit for ten minutes, so no call waits for it."
		if left := look.left; left.waiting+left.booked > 0 {
			a.Reason, a.Held = WhyNobody, left.waiting+left.booked
			a.Text = fmt.Sprintf("No process has used the limit for ten minutes, and %s booked: start workers if none runs.",
				count(a.Held, "call waits or is", "calls wait or are"))
		}
		return a, nil
	}
	row := &look.Rows[0]
	if errors.Is(row.Err, reserve.ErrInvalid) {
		return nil, row.Err
	}
	booked, err := r.booking(ctx, n, look, &row, which)
	switch {
	case errors.Is(err, reserve.ErrCorrupt):
		a.Reason, a.Text = WhyCorrupt, corrupt(err)
		return a, nil
	case err != nil:
		return nil, err
	}
	a.Key = row.Key
	if which == "" {
		row = look.busiest(ctx, r, n, row)
		a.Key = row.Key
	}
	reasons := look.reasons(row, booked)
	a.Held = held(row, booked, reasons[0].why)
	if which != "" && booked == nil && row.Calls == 0 && row.Used == 0 && reasons[0].why == WhyAvailable {
		if there, err := r.there(ctx, n, look, which); err != nil {
			return nil, err
		} else if !there {
			reasons[0].text = fmt.Sprintf("Nothing is known of %q: no key that was used lately, and no booking. A call with that key would have its turn now.", which)
		}
	}
	a.Reason, a.Text = reasons[0].why, reasons[0].text
	for _, other := range reasons[1:] {
		if other.why != WhyQueue && other.why != WhyAvailable {
			a.Also = append(a.Also, other.why)
		}
		a.Evidence = append(a.Evidence, other.text)
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
	case why == WhyAvailable:
		return 0
	case booked != nil:
		return 1
	}
	return max(row.State.Waiting, int64(row.Calls)) + row.State.Booked
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
			of, err := r.Look(ctx, n, 1, key)
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
	if row.Waiting > 0 || row.Booked > 0 || row.Calls > 0 || row.Paused || row.Err != nil {
		return row
	}
	all, err := r.Look(ctx, n, 1)
	if err != nil || len(all.Rows) == 0 || row.Used > 0 && all.Rows[0].Calls == 0 {
		return row
	}
	return &all.Rows[0]
}

// reason is one reason, with its text.
type reason struct {
	why  Why
	text string
}

// reasons returns all reasons that apply, the most important first. There is at least one.
func (l *Look) reasons(row *Row, booked *Booked) (all []reason) {
	add := func(holds bool, why Why, format string, args ...any) {
		if holds {
			all = append(all, reason{why, fmt.Sprintf(format, args...)})
		}
	}
	st := &row.State
	if row.Err != nil {
		return []reason{{WhyCorrupt, corrupt(row.Err)}}
	}
	if failing := l.Unfit(); failing != nil {
		all = append(all, reason{WhyKind, l.unfit(failing)})
	}
	because := ""
	if told := plain(st.PauseReason); told != "" {
		because = " because: " + told
		if strings.HasPrefix(told, "(by ") { // no reason was given
			because = " " + told
		}
	}
	add(row.Paused, WhyPaused, "It is paused until %s, for %s more%s.", clock(row.Until), span(st.Paused), because)
	calls := st.Waiting // reports are up to a second old, and reported calls may wait for other limits
	if calls > 0 {
		calls = max(calls, int64(row.Calls-row.HeldBack-row.HeldElse))
	}
	waits := calls > 0 || st.Booked > 0
	nobody := l.Alive() == 0
	add(calls > 0 && nobody, WhyNobody, "%s, and no process is alive to make the calls.", count(calls, "call waits", "calls wait"))
	add(calls == 0 && nobody && l.Dead() > 0 && st.Booked > 0, WhyNobody, "%s booked, and no process is alive to make the calls: %d died in the last ten minutes.",
		count(st.Booked, "call is", "calls are"), l.Dead())
	add(calls == 0 && nobody && l.Dead() > 0 && st.Booked == 0, WhyNobody, "No process is alive to make calls: %d died in the last ten minutes.", l.Dead())
	// Workers whose calls are all booked may send no heartbeats. So this reason applies only if permits
	// are available, and none of the booked calls has come for them.
	add(calls == 0 && nobody && l.Dead() == 0 && st.Booked > 0 && st.Wait <= 0, WhyNobody,
		"%s booked, permits are stored, and no process sends heartbeats: start workers if none runs; if some do, run the booked tasks now to have them earlier.",
		count(st.Booked, "call is", "calls are"))
	limit, _ := l.InForce()
	if limit.Kind() == reserve.KindSlots {
		add(row.Held >= st.Burst && st.Burst > 0, WhySlots, "All %d slots are held%s.", st.Burst, l.longest(st.Holders))
	}
	others := ""
	if row.HeldElse > 0 {
		others = fmt.Sprintf(", and %d wait at other limits", row.HeldElse)
	}
	add(2*(row.HeldBack+row.HeldElse) > row.Calls && row.HeldBack > 0, WhyHeldBy, "%d of %s also need the limit %q and wait there%s. Run: fleetpace why %s.",
		row.HeldBack, count(int64(row.Calls), "call", "calls"), row.HeldBy, others, row.HeldBy)
	if kind := limit.Kind(); kind == reserve.KindQuota || kind == reserve.KindRolling {
		add(st.Stored < 1 && !row.Paused, WhyUsedUp, "The limit of %s is used up: a new call would have its turn in about %s.", row.Limit, span(st.Wait))
	}
	if st.Set {
		until := "until it is reset or set again"
		if st.SetFor > 0 {
			until = "for " + span(st.SetFor) + " more"
		}
		by := ""
		if who := l.SetBy[row.Key]; who != "" {
			by = " by " + plain(who)
		}
		slows := st.Rate < limit.Rate() || st.Burst < limit.MaxBurst() && limit.Kind() != reserve.KindSlots
		of := ""
		if row.Key != "" {
			of = fmt.Sprintf(" of the key %q", plain(row.Key))
		}
		add(slows, WhySet, "The limit%s was set to %s%s, %s; the configured limit is %s.", of, row.Limit, by, until, l.Limit)
	}
	add(len(l.Differ) > 0, WhyDiffer, "Processes are configured with different limits, and the slowest is in force: %s.", differing(l.Differ))
	queue := "It is the queue: "
	if len(all) > 0 {
		queue = ""
	}
	switch {
	case booked != nil && !booked.Counts:
		add(true, WhyQueue, "%sits call is back and waits, or it waits at another limit of its Joint: run fleetpace why for that limit.", queue)
	case booked != nil:
		add(true, WhyQueue, queue+"its task is booked as number %d, and comes back before its turn%s.", booked.Before+1, l.turnOf(booked, st))
	case calls > 0 && limit.Kind() == reserve.KindSlots: // when a slot will be free is unknown
		add(true, WhyQueue, queue+"%s for slots.", count(calls, "call waits", "calls wait"))
	case calls > 0:
		add(true, WhyQueue, queue+"%s, and a new call would have its turn in about %s.", count(calls, "call waits", "calls wait"), span(st.Wait))
	case st.Wait > 0 && len(all) == 0:
		add(true, WhyQueue, "Earlier calls have used the permits, and a new call would have its turn in about %s.", span(st.Wait))
	case st.Wait > 0:
		add(true, WhyQueue, "A new call would have its turn in about %s.", span(st.Wait))
	case st.Booked > 0 && len(all) == 0:
		add(true, WhyBooked, "Nothing holds a new call back. %s booked, and %s back at the time that was set when the limit was slower or paused: run their tasks now to have them earlier.",
			count(st.Booked, "call is", "calls are"), map[bool]string{true: "comes", false: "come"}[st.Booked == 1])
	default:
		held := slices.ContainsFunc(all, func(r reason) bool { return slower(r.why) == 0 })
		add(!held, WhyAvailable, "Nothing holds it back: a call would have its turn now.")
	}
	return weighed(all, waits)
}

// weighed moves reasons that only slow a queue to the end, if no call waits.
func weighed(all []reason, waits bool) []reason {
	if waits {
		return all
	}
	slices.SortStableFunc(all, func(x, y reason) int { return slower(x.why) - slower(y.why) })
	return all
}

func slower(why Why) int {
	if why == WhySet || why == WhyDiffer {
		return 1
	}
	return 0
}

// turnOf says when a booking is expected to have its turn, by the rate.
func (l *Look) turnOf(booked *Booked, st *reserve.State) string {
	limit, _ := l.InForce()
	if kind := limit.Kind(); kind != reserve.KindPaced && kind != reserve.KindWarmingUp || st.Rate <= 0 {
		return ""
	}
	return ", in about " + span(max(0, st.Wait+seconds(float64(booked.Permits)/st.Rate)))
}

// evidence lists figures.
func (l *Look) evidence(row *Row) []string {
	st := &row.State
	texts := []string{fmt.Sprintf("limit %s; in Redis %s here, %d booked, %v permits stored", row.Limit, count(st.Waiting, "call waits", "calls wait"), st.Booked, st.Stored)}
	texts = append(texts, fmt.Sprintf("%s, %d dead in the last ten minutes", count(int64(l.Alive()), "process is alive", "processes are alive"), l.Dead()))
	if row.Oldest > 0 {
		texts = append(texts, "the oldest waiting call has waited for "+span(seconds(row.Oldest)))
	}
	for i, p := range l.Unfit() {
		if i == mostUnfit {
			texts = append(texts, "fleetpace show lists the other processes whose calls fail")
			break
		}
		texts = append(texts, fmt.Sprintf("calls of %s fail since %s: it is configured with %s", l.process(p.ID), clock(p.Fails), plain(p.Limit)))
	}
	for i, h := range st.Holders {
		if i == 3 {
			texts = append(texts, fmt.Sprintf("and %d more hold slots", len(st.Holders)-i))
			break
		}
		texts = append(texts, fmt.Sprintf("%s holds %s for %s%s", l.process(h.Process), count(int64(h.Slots), "slot", "slots"), span(time.Since(h.Since)), doing(h)))
	}
	return texts
}

func (l *Look) longest(holders []reserve.Holder) string {
	if len(holders) == 0 {
		return ""
	}
	h := holders[0]
	return fmt.Sprintf(", the longest by %s for %s%s", l.process(h.Process), span(time.Since(h.Since)), doing(h))
}

func doing(h reserve.Holder) string {
	if h.Doing == "" {
		return ""
	}
	return " (" + h.Doing + ")"
}

// process is the name of a process for people.
func (l *Look) process(id string) string {
	for i := range l.Processes {
		if p := &l.Processes[i]; p.ID == id && p.Report.PID > 0 {
			dead := ""
			if !p.Alive && !p.Report.Ended {
				dead = " (dead)"
			}
			return fmt.Sprintf("%s, process %d%s", p.Report.Host, p.Report.PID, dead)
		}
	}
	return "process " + id
}

func differing(limits map[string]int) string {
	var texts []string
	for limit, n := range limits {
		texts = append(texts, fmt.Sprintf("%s in %d", limit, n))
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}

// corrupt says what is wrong with a key.
func corrupt(err error) string {
	return fmt.Sprintf("A key in Redis is not what it should be: %s.", plain(err.Error()))
}

// plain returns a text in one line, without an end mark, for use within a sentence.
func plain(text string) string {
	return strings.TrimRight(strings.Join(strings.FieldsFunc(text, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }), " "), ".!")
}

func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// span formats a duration for people.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Second).String()
	}
}

func clock(t time.Time) string {
	if time.Until(t).Abs() > 12*time.Hour {
		return t.Format("Mon 2 Jan 15:04:05 MST")
	}
	return t.Format("15:04:05 MST")
}

// IsAway reports whether an error says that Redis does not answer.
func IsAway(err error) bool {
	return errors.Is(err, reserve.ErrUnavailable) && !errors.Is(err, context.Canceled)
}
