package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// reason is one reason, with its text.
type reason struct {
	why  Why
	text string // one sentence
	more string // further sentences
}

// reasons returns all reasons that apply, the most important first. There is at least one.
func (l *Look) reasons(row *Row, booked *Booked) (all []reason) {
	add := func(holds bool, why Why, format string, args ...any) {
		if holds {
			all = append(all, reason{why: why, text: fmt.Sprintf(format, args...)})
		}
	}
	st := &row.State
	if l.refuses != nil {
		all = append(all, noWrites(l.refuses))
	}
	if row.Err != nil {
		return []reason{{why: WhyCorrupt, text: corrupt(row.Err)}}
	}
	if failing := l.Unfit(); failing != nil {
		all = append(all, l.unfit(failing))
	}
	because := ""
	if told := strings.TrimPrefix(plain(st.PauseReason), "hard stop: "); told != "" {
		because = ", because: " + told
		if strings.HasPrefix(told, "(by ") { // no reason was given
			because = " " + told
		}
	}
	until, unknown := "", " No end is known: one call of the fleet may probe every five minutes."
	if !st.StoppedUntil.IsZero() {
		until, unknown = " until "+clock(row.Until)+", for "+span(st.Paused)+" more", ""
	}
	keys := ""
	if row.Key == "" && slices.ContainsFunc(l.Keys, func(q Queue) bool { return q.Key != "" }) { // each has a pause of its own
		keys = " This does not hold back calls of its keys."
	}
	calls := st.Waiting // reports are up to a second old, and reported calls may wait for other limits
	if calls > 0 {
		calls = max(calls, int64(row.Calls-row.HeldBack-row.HeldElse))
	}
	waits := calls > 0 || st.Booked > 0
	quiet, silence, meanwhile := l.unsure()
	unsure := l.Living() == 0 && quiet > 0 && l.refuses == nil
	nobody := l.Living() == 0 && l.refuses == nil && !unsure
	lost := calls == 0 && nobody && row.lost() > 0                         // their places have ended, and the reports are there
	died := calls == 0 && nobody && !lost && l.Dead() > 0 && l.idle() == 0 // an idle process may live, also if another one died
	gone, idle := "no process is alive in this Redis to make the calls", l.idle()
	if idle > 0 { // it may live, but these are not its calls
		gone = fmt.Sprintf("no process sends heartbeats to make the calls: %s idle and may live", count(int64(idle), "process is", "processes are"))
	}
	add(calls > 0 && nobody, WhyNobody, "%s, and %s.", count(calls, "call waits", "calls wait"), gone)
	add(lost, WhyNobody, "%s when their processes last reported, and %s.", count(row.lost(), "call waited", "calls waited"), gone)
	add(st.Stopped, WhyStopped, "It is stopped%s, and calls fail%s.%s%s", until, because, unknown, keys)
	add(row.Paused && !st.Stopped, WhyPaused, "It is paused until %s, for %s more%s.%s", clock(row.Until), span(st.Paused), because, keys)
	// Processes whose calls were booked longer ago may live, and are forgotten.
	add(died && st.Booked > 0, WhyNobody, "%s booked, and no process is known to be alive in this Redis: %d died in the last ten minutes.",
		count(st.Booked, "call is", "calls are"), l.Dead())
	add(died && st.Booked == 0, WhyNobody, "No process is alive in this Redis to make calls: %d died in the last ten minutes.", l.Dead())
	closed, ended := l.closed()
	add(calls == 0 && nobody && ended && st.Booked > 0, WhyNobody, "%s booked, and no process is known to be alive in this Redis: the last one closed %s ago.",
		count(st.Booked, "call is", "calls are"), span(seconds(closed)))
	add(calls == 0 && nobody && ended && st.Booked == 0, WhyNobody, "No process is known to be alive in this Redis: the last one closed %s ago.", span(seconds(closed)))
	// Workers whose calls are all booked may send no heartbeats. So this reason applies only if permits
	// are available, and none of the booked calls has come for them.
	add(calls == 0 && nobody && !died && !lost && !ended && st.Booked > 0 && st.Wait <= 0, WhyNobody,
		"%s booked, permits are stored, and no process sends heartbeats: %s.",
		count(st.Booked, "call is", "calls are"), map[bool]string{true: "start fleetpace serve if none runs; its callers ask again by themselves", false: "start workers if none runs; if some do, run the booked tasks now to have them earlier"}[row.served])
	if unsure {
		begins := "No"
		if calls > 0 {
			begins = count(calls, "call waits", "calls wait") + ", and no"
		}
		missing := "Redis was full, and took none: whether a process is alive is known in about a second"
		if meanwhile == justStarted {
			missing = "Redis has just started, and processes are not back yet: in " + span(back) + " at most it is known whether one is alive"
		}
		add(true, WhySilent, "%s process has sent a heartbeat for %s. %s.", begins, span(silence), missing)
	}
	if l.untried {
		for i := range all {
			if all[i].why == WhyNobody {
				all[i].more = "Redis may also refuse to write, for example because it is full: this user may not try."
			}
		}
	}
	limit, _ := l.InForce()
	full := limit.Kind() == reserve.KindSlots && row.Held >= st.Burst && st.Burst > 0
	if full {
		add(true, WhySlots, "All %d slots are held%s.", st.Burst, l.longest(row))
		all[len(all)-1].more = l.lately(st.Holders)
	}
	others := ""
	if row.HeldElse > 0 {
		others = fmt.Sprintf(", and %d wait at other limits", row.HeldElse)
	}
	add(2*(row.HeldBack+row.HeldElse) > row.Calls && row.HeldBack > 0, WhyHeldBy, "%d of %s also need the limit %q and wait there%s.",
		row.HeldBack, count(int64(row.Calls), "call", "calls"), l.beside(row), others)
	if kind := limit.Kind(); kind == reserve.KindQuota || kind == reserve.KindRolling {
		turn := fmt.Sprintf("a new call would have its turn in about %s, at %s", span(st.Wait), clock(time.Now().Add(st.Wait)))
		if nobody { // no turn is expected
			turn = fmt.Sprintf("permits come back in about %s, at %s", span(st.Wait), clock(time.Now().Add(st.Wait)))
		}
		add(st.Stored < 1 && !row.Paused, WhyUsedUp, "The limit of %s is used up: %s.", row.Limit, turn)
	}
	add(row.slows(), WhySet, "%s", l.Override(row))
	force := "the slowest"
	if st.Set {
		force = row.Limit + ", which was set,"
	}
	add(len(l.Differ) > 0, WhyDiffer, "Processes are configured with different limits, and %s is in force: %s.", force, differing(l.Differ))
	if p := l.last(); p != nil && calls > 0 && l.refuses == nil {
		ago := seconds(p.Silent)
		add(ago > late || ago > lateIdle && st.Stored >= 1 && len(all) == 0, WhySilent, "%s, and no process has sent a heartbeat for %s: in %s it is known whether one is alive.",
			count(calls, "call waits", "calls wait"), span(ago), span(silent-ago))
	}
	queue := "It is the queue: "
	if len(all) > 0 {
		queue = ""
	}
	if flow, of := l.flood(); of > 0 && booked == nil {
		add(true, WhyFlow, "%s%s has %d of the %d calls that wait. It gets its share, and calls of others go before the rest.", queue, flow, of, l.Waiting())
		queue = ""
	}
	switch {
	case booked != nil && !booked.Counts:
		add(true, WhyQueue, "%sits call is back and waits, or it waits at another limit of its Joint: run fleetpace why for that limit.", queue)
	case booked != nil:
		add(true, WhyQueue, queue+"its task is booked as number %d, and comes back before its turn%s.", booked.Before+1, l.turnOf(booked, st))
	case calls > 0 && limit.Kind() == reserve.KindSlots: // when a slot will be free is unknown
		add(true, WhyQueue, queue+"%s for slots.", count(calls, "call waits", "calls wait"))
	case unsure, calls > 0 && nobody:
	case calls > 0 && st.Booked > 0:
		add(true, WhyQueue, queue+"%s, and %d more %s booked. The turn of a new call depends on when those come back.", count(calls, "call waits", "calls wait"),
			st.Booked, map[bool]string{true: "is", false: "are"}[st.Booked == 1])
	case calls > 0:
		add(true, WhyQueue, queue+"%s, and a new call would have its turn in about %s.", count(calls, "call waits", "calls wait"), span(st.Wait))
	case st.Wait > 0 && len(all) == 0 && st.Booked > 0:
		add(true, WhyQueue, "Earlier calls have used the permits, and %s booked. The turn of a new call depends on when those come back.", count(st.Booked, "call is", "calls are"))
	case st.Wait > 0 && len(all) == 0:
		add(true, WhyQueue, "Earlier calls have used the permits, and a new call would have its turn in about %s.", span(st.Wait))
	case st.Wait > 0 && !nobody && !st.Stopped && !(full && st.Paused == 0): // else no turn is expected
		add(true, WhyQueue, "A new call would have its turn in about %s.", span(st.Wait))
	case st.Booked > 0 && len(all) == 0:
		add(true, WhyBooked, "Nothing holds a new call back. %s booked, and %s back at the time that was set when the limit was slower or paused: %s.",
			count(st.Booked, "call is", "calls are"), map[bool]string{true: "comes", false: "come"}[st.Booked == 1],
			map[bool]string{true: "callers of fleetpace serve ask again by themselves", false: "run their tasks now to have them earlier"}[row.served])
	default:
		held := slices.ContainsFunc(all, func(r reason) bool { return slower(r.why) == 0 })
		none := ""
		if idle > 0 && nobody {
			also := ""
			if dead := l.Dead(); dead > 0 {
				also = fmt.Sprintf(", and %d died in the last ten minutes", dead)
			}
			none = fmt.Sprintf(" No process has made a call for 10s or more: %s idle%s.", count(int64(idle), "is", "are"), also)
		}
		add(!held, WhyAvailable, "Nothing holds it back: a call would have its turn now.%s", none)
	}
	return both(weighed(all, waits))
}

// both lets the first reason say of a limit without living processes that it is also held back. The other way round it
// says so at once: a resume alone has no effect. The same holds if it is soon known whether a process lives.
func both(all []reason) []reason {
	holds := func(why Why) bool { return why == WhyStopped || why == WhyPaused || why == WhyUsedUp }
	for _, r := range all[1:] {
		switch {
		case all[0].why == WhyNobody && holds(r.why):
			all[0].more = strings.TrimSpace(all[0].more + " " + r.text)
		case holds(all[0].why) && r.why == WhyNobody:
			all[0].text += " " + r.text
		case r.why == WhySilent:
			all[0].more = strings.TrimSpace(all[0].more + " " + r.text)
		}
	}
	return all
}

// noWrites is the reason if Redis refuses to write.
func noWrites(err error) reason {
	refuses := "Redis refuses"
	if strings.Contains(err.Error(), "OOM") {
		refuses = "Redis is full, and refuses"
	}
	return reason{WhyNoWrites, refuses + " to write, so each process follows its outage policy.",
		"Whether a process is alive cannot be seen meanwhile. The error: " + plain(err.Error()) + "."}
}

// flood is the flow that has more than nine tenths of the calls that wait, and how many it has, if others wait, too.
func (l *Look) flood() (flow string, calls int) {
	all := l.Waiting()
	rest := all
	for _, q := range l.Flows {
		if rest -= q.Calls; q.Calls > calls {
			flow, calls = fmt.Sprintf("the flow %q", plain(q.Key)), q.Calls
		}
	}
	if rest > calls {
		flow, calls = "one flow, of calls without a name,", rest
	}
	if 10*calls <= 9*all || calls == all {
		return "", 0
	}
	return flow, calls
}

// beside is the limit, of the same group, that holds back the calls of a row, with its key.
func (l *Look) beside(row *Row) string { return Name{row.HeldBy, l.Group}.String() }

// Override says what the limit of a row was set to, by whom and for how long. It is empty if the configured limit is in force.
func (l *Look) Override(row *Row) string {
	st := &row.State
	if !st.Set {
		return ""
	}
	until := "until it is reset or set again"
	if st.SetFor > 0 {
		until = "for " + span(st.SetFor) + " more"
	}
	by := ""
	if who := l.SetBy[row.Key]; who != "" {
		by = " by " + plain(who)
	}
	of := ""
	if row.Key != "" {
		of = fmt.Sprintf(" of the key %q", plain(row.Key))
	}
	return fmt.Sprintf("The limit%s was set to %s%s, %s; the configured limit is %s.", of, row.Limit, by, until, row.Own)
}

// slows reports whether an override lets less through than the configured limit.
func (row *Row) slows() bool {
	st := &row.State
	return st.Set && (st.Rate < row.Own.Rate() || st.Burst < row.Own.MaxBurst() && row.Own.Kind() != reserve.KindSlots)
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

func differing(limits map[string]int) string {
	var texts []string
	for limit, n := range limits {
		texts = append(texts, fmt.Sprintf("%s in %s", plain(limit), count(int64(n), "process", "processes")))
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}
