package model

import "maps"

// stale reports whether a call is older than the last one of the same process: a
// copy that comes late.
func (l *Line) stale(c Caller) bool {
	return c.Serial > 0 && c.Serial < l.members[c.Member].serial
}

// sign notes the caller, with the numbers that its call gave, and counts the
// processes when it is time to.
func (l *Line) sign(c Caller, gave []int64) {
	own, known := l.members[c.Member]
	if !l.call.fresh && (c.Member != "" && !known || l.seen-l.counted >= countMicros) {
		l.count(c.Member)
	}
	if c.Member == "" {
		return
	}
	var settled bill
	if c.Serial == 0 || l.call.replay {
		settled = own.bill
		if c.Serial == 0 || gave == nil {
			gave = own.gave
		}
	}
	if l.members == nil {
		l.members = make(map[string]record)
	}
	l.members[c.Member] = record{seen: l.seen, serial: max(c.Serial, own.serial), gave: gave, bill: settled}
}

// count forgets the processes that did not call for long, except the caller.
func (l *Line) count(caller string) {
	maps.DeleteFunc(l.members, func(name string, m record) bool {
		return name != caller && max(l.seen-m.seen, m.seen-l.seen) > aliveMicros
	})
	l.live, l.counted = int64(len(l.members)), l.seen
	if _, known := l.members[caller]; caller != "" && !known {
		l.live++
	}
}
