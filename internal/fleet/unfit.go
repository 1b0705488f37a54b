package fleet

import (
	"fmt"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/reserve"
)

// mostUnfit is how many of these processes an answer names.
const mostUnfit = 5

// Unfit returns the live processes whose calls fail, because their limit is of another kind than
// the one in force under its name.
func (s *Survey) Unfit() (failing []*Process) {
	for i := range s.Processes {
		if p := &s.Processes[i]; p.Alive && !p.Fails.IsZero() {
			failing = append(failing, p)
		}
	}
	return failing
}

// Apart reports whether a process and the limit in force have the same kind. Then another version made its calls fail.
func (s *Survey) Apart(p *Process) bool {
	own, err := reserve.ParseLimit(p.Limit)
	inForce, unknown := s.InForce()
	return err == nil && unknown == nil && own.Kind() == inForce.Kind()
}

// unfit says what is wrong with these processes, and then what to do.
func (l *Look) unfit(failing []*Process) reason {
	p, others := failing[0], ""
	if n := int64(len(failing) - 1); n > 0 {
		others = fmt.Sprintf("Calls of %s fail, too. ", count(n, "other process", "other processes"))
	}
	text := fmt.Sprintf("Calls of %s fail since %s: ", l.Process(p.ID), clock(p.Fails))
	if foreign := l.Foreign(p); foreign > 0 {
		do := "Stop the processes of one of them"
		if foreign < p.Report.Protocol {
			do = "Stop those of " + version(foreign)
		}
		who := l.speaking(foreign)
		do += " (" + who + "), and calls succeed a few seconds later: " + fault.Docs + "upgrading.md"
		if who == "" {
			do = "Those have just ended or died: calls succeed a few seconds later."
		}
		return reason{WhyVersion, text + fmt.Sprintf("it speaks protocol %d, and processes of %s use the limit.", p.Report.Protocol, version(foreign)),
			others + fmt.Sprintf("The two versions cannot share the limit. %s", do)}
	}
	if l.Apart(p) {
		return reason{WhyVersion, text + "processes of another version used the limit until now.", others + "Calls succeed a few seconds later."}
	}
	if l.Alive() == 0 {
		return reason{WhyKind, text + fmt.Sprintf("it is configured with %s, and %s was in force until now, which is of another kind.", plain(p.Limit), l.Limit),
			others + "The processes of that kind are gone: calls succeed a few seconds later."}
	}
	return reason{WhyKind, text + fmt.Sprintf("it is configured with %s, and %s is in force, which is of another kind.", plain(p.Limit), l.Limit),
		others + "Stop the processes whose calls fail, or undo their deploy. To have their kind, stop all others. Use one kind in all processes, or Config.LimitOf if only some keys have another. Two limits of an API need two names."}
}
