package fleet

import (
	"fmt"

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

// unfit says what is wrong with these processes, and what to do.
func (l *Look) unfit(failing []*Process) (Why, string) {
	p := failing[0]
	others := ""
	if n := len(failing) - 1; n > 0 {
		others = ", and so do those of " + count(int64(n), "other process", "other processes")
	}
	if foreign := l.Foreign(p); foreign > 0 {
		do := "Stop the processes of one of them"
		if foreign < p.Report.Protocol {
			do = "Stop the earlier ones"
		}
		return WhyVersion, fmt.Sprintf("Calls of %s fail since %s%s: it speaks protocol %d, and processes of %s use the limit, and the two versions cannot share it. %s (%s), and calls succeed a few seconds later: docs/upgrading.md.",
			l.Process(p.ID), clock(p.Fails), others, p.Report.Protocol, version(foreign), do, l.speaking(foreign))
	}
	if l.Apart(p) {
		return WhyVersion, fmt.Sprintf("Calls of %s fail since %s%s: processes of another version used the limit until now. Calls succeed a few seconds later.",
			l.Process(p.ID), clock(p.Fails), others)
	}
	return WhyKind, fmt.Sprintf("Calls of %s fail since %s%s: it is configured with %s, and %s is in force, which is of another kind. Use one kind in all processes, or Config.LimitOf if only some keys have another: \"%s\" lists the processes. Two limits of an API need two names.",
		l.Process(p.ID), clock(p.Fails), others, plain(p.Limit), l.Limit, l.command("show", l.Name.String()))
}
