package model

import (
	"maps"
	"strings"
)

// stale reports whether a call is older than the last one of the same member: a
// copy that comes late.
func (l *Line) stale(c Caller) bool {
	return c.Serial > 0 && c.Serial < l.members[c.Member].serial
}

// sign notes the caller, with the numbers that its call gave, and counts the
// processes when it is time to, or when it is of one that may be new.
func (l *Line) sign(c Caller, gave []int64) {
	own, known := l.members[c.Member]
	_, counted := l.members[process(c.Member)]
	if !l.call.fresh && (c.Member != "" && !known && !counted || l.seen-l.counted >= countMicros) {
		l.count(c.Member)
	}
	if c.Member == "" {
		return
	}
	left := record{serial: max(c.Serial, own.serial), gave: gave}
	if c.Serial == 0 || l.call.replay {
		left.bill = own.bill
		if c.Serial == 0 || gave == nil {
			left.gave, left.row, left.before = own.gave, own.row, own.before
		}
	}
	l.write(c, left)
}

// write notes what is left of the caller's call.
func (l *Line) write(c Caller, r record) {
	if l.members == nil {
		l.members = make(map[string]record)
	}
	r.seen = l.seen
	l.members[c.Member] = r
}

// count forgets the members that did not call for long, except the caller, and
// counts the processes that the others belong to.
func (l *Line) count(caller string) {
	maps.DeleteFunc(l.members, func(name string, m record) bool {
		return name != caller && max(l.seen-m.seen, m.seen-l.seen) > aliveMicros
	})
	processes := make(map[string]bool)
	add := func(member string) {
		processes[process(member)] = true
	}
	for name := range l.members {
		add(name)
	}
	if caller != "" {
		add(caller)
	}
	l.live, l.counted = int64(len(processes)), l.seen
}

// process is whose member that is.
func process(member string) string {
	name, _, _ := strings.Cut(member, "/")
	return name
}
