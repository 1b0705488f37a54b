package fleet

import (
	"fmt"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// evidence lists figures.
func (l *Look) evidence(row *Row) []string {
	st := &row.State
	texts := []string{fmt.Sprintf("limit %s; in Redis %s here, %d booked, %v permits stored", row.Limit, count(st.Waiting, "call waits", "calls wait"), st.Booked, st.Stored)}
	if set := l.Override(row); set != "" && !row.slows() { // else it is a reason
		texts = append(texts, set)
	}
	if l.refuses == nil {
		fail := ""
		if n := len(l.Unfit()); n > 0 {
			fail = fmt.Sprintf(" (calls of %d of them fail)", n)
		}
		silent := ""
		if n, _, meanwhile := l.unsure(); n > 0 {
			silent = fmt.Sprintf(", %d silent: %s", n, meanwhile)
		}
		if n := l.idle(); n > 0 {
			silent += fmt.Sprintf(", %d idle", n)
		}
		texts = append(texts, fmt.Sprintf("%s%s%s, %d dead in the last ten minutes", count(int64(l.Living()), "process is alive", "processes are alive"), fail, silent, l.Dead()))
	}
	if p := l.last(); p != nil {
		texts = append(texts, fmt.Sprintf("the last heartbeat came %s ago, from %s", span(seconds(p.Silent)), l.Process(p.ID)))
	}
	texts = append(texts, l.protocols()...)
	if row.Oldest > 0 {
		texts = append(texts, "the oldest waiting call has waited for "+span(seconds(row.Oldest)))
	}
	for i, p := range l.Unfit() {
		if i == mostUnfit {
			texts = append(texts, "fleetpace show lists the other processes whose calls fail")
			break
		}
		is := "is configured with " + plain(p.Limit)
		if l.Foreign(p) > 0 || l.Apart(p) {
			is = "speaks " + version(p.Report.Protocol)
		}
		texts = append(texts, fmt.Sprintf("calls of %s fail since %s: it %s", l.Process(p.ID), clock(p.Fails), is))
	}
	for i, h := range st.Holders {
		if i == 3 {
			texts = append(texts, fmt.Sprintf("and %d more hold slots", len(st.Holders)-i))
			break
		}
		texts = append(texts, fmt.Sprintf("%s holds %s for %s%s%s", l.Holder(h), count(int64(h.Slots), "slot", "slots"), span(time.Since(h.Since)), doing(h), row.lease(h)))
	}
	return texts
}

// longest says who has held slots for the longest time.
func (l *Look) longest(row *Row) string {
	if len(row.State.Holders) == 0 {
		return ""
	}
	h := row.State.Holders[0]
	return fmt.Sprintf(", the longest by %s for %s%s%s", l.Holder(h), span(time.Since(h.Since)), doing(h), row.lease(h))
}

// lately says whether slots come back: when a call last took one. It names the process that has kept the most meanwhile.
func (l *Look) lately(holders []reserve.Holder) string {
	if len(holders) == 0 {
		return ""
	}
	ago := time.Since(holders[len(holders)-1].Since)
	if ago < stuck {
		return fmt.Sprintf("A call took a slot %s ago.", span(ago)) + l.keeps(holders)
	}
	back := ""
	if !l.stuck(holders) {
		back = fmt.Sprintf(", but all processes were silent until %s ago", span(l.whole))
	}
	return fmt.Sprintf("No call has taken a slot for %s%s.", span(ago), back)
}

// stuck reports whether no call has taken a slot for long, although processes lived. While they were suspended, or Redis
// did not run, no call could, and for a moment later none has.
func (l *Look) stuck(holders []reserve.Holder) bool {
	return time.Since(holders[len(holders)-1].Since) >= stuck && (l.whole == 0 || l.whole >= silent)
}

// keeps names who has held the same slots for long, and holds the most, while others take some.
func (l *Look) keeps(holders []reserve.Holder) string {
	slots, since, most := map[string]int{}, map[string]time.Time{}, ""
	for _, h := range holders { // the latest ones last
		who := l.Holder(h)
		slots[who], since[who] = slots[who]+h.Slots, h.Since
	}
	for who, n := range slots {
		if time.Since(since[who]) >= stuck && (n > slots[most] || n == slots[most] && who < most) {
			most = who
		}
	}
	if slots[most] < 2 {
		return ""
	}
	return fmt.Sprintf(" Meanwhile %s has held the same %d for %s.", most, slots[most], span(time.Since(since[most])))
}

// Holder is the process that holds slots, or the caller that holds them by a lease.
func (l *Look) Holder(h reserve.Holder) string {
	switch name, _ := caller(h); {
	case name != "":
		return "the caller " + plain(name)
	case isLease(h):
		return "a caller of serve"
	}
	return l.Process(h.Process)
}

// caller is the name that a caller of serve gives itself, and the ID that it gives its call. Other calls have no name.
func caller(h reserve.Holder) (name, id string) {
	if both, ok := strings.CutPrefix(h.Doing, "http/"); ok && isLease(h) {
		name, id, _ = strings.Cut(both, " ")
		return name, id
	}
	made, ok := strings.CutPrefix(strings.TrimSuffix(h.Doing, "~"), "http:")
	if slash := strings.LastIndex(made, "/"); ok && slash > 0 && len(made) == slash+len("/")+32 {
		return made[:slash], ""
	}
	return "", h.Doing
}

// Doing is the ID or the flow of the call that holds slots.
func Doing(h reserve.Holder) string {
	_, id := caller(h)
	return plain(id)
}

// doing is Doing, in parentheses.
func doing(h reserve.Holder) string {
	if text := Doing(h); text != "" {
		return " (" + text + ")"
	}
	return ""
}

// Process is the name of a process for people.
func (l *Look) Process(id string) string {
	for i := range l.Processes {
		if p := &l.Processes[i]; p.ID == id && p.Report.PID > 0 {
			dead := ""
			if !p.Alive && !p.Report.Ended && !p.Unsure && l.refuses == nil {
				dead = " (dead)"
			}
			return fmt.Sprintf("%s, process %d%s", p.Report.Host, p.Report.PID, dead)
		}
	}
	return "process " + id
}
