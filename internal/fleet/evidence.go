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
	texts = append(texts, fmt.Sprintf("%s, %d dead in the last ten minutes", count(int64(l.Alive()), "process is alive", "processes are alive"), l.Dead()))
	texts = append(texts, l.protocols()...)
	if row.Oldest > 0 {
		texts = append(texts, "the oldest waiting call has waited for "+span(seconds(row.Oldest)))
	}
	for i, p := range l.Unfit() {
		if i == mostUnfit {
			texts = append(texts, "fleetpace show lists the other processes whose calls fail")
			break
		}
		texts = append(texts, fmt.Sprintf("calls of %s fail since %s: it is configured with %s", l.Process(p.ID), clock(p.Fails), plain(p.Limit)))
	}
	for i, h := range st.Holders {
		if i == 3 {
			texts = append(texts, fmt.Sprintf("and %d more hold slots", len(st.Holders)-i))
			break
		}
		texts = append(texts, fmt.Sprintf("%s holds %s for %s%s", l.Process(h.Process), count(int64(h.Slots), "slot", "slots"), span(time.Since(h.Since)), doing(h)))
	}
	return texts
}

func (l *Look) longest(holders []reserve.Holder) string {
	if len(holders) == 0 {
		return ""
	}
	h := holders[0]
	return fmt.Sprintf(", the longest by %s for %s%s", l.Process(h.Process), span(time.Since(h.Since)), doing(h))
}

func doing(h reserve.Holder) string {
	if h.Doing == "" {
		return ""
	}
	if id, ok := strings.CutPrefix(h.Doing, "http:"); ok { // serve adds its own ID to the name of a caller
		if slash := strings.LastIndex(id, "/"); slash > 0 && len(id) == slash+len("/")+32 {
			return " (its caller is " + id[:slash] + ")"
		}
	}
	return " (" + h.Doing + ")"
}

// Process is the name of a process for people.
func (l *Look) Process(id string) string {
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
