package model

// Row asks for the next permits of a plain line, in a row.
type Row struct {
	Permits     int64
	SlackMicros float64 // only if the permit before them is due within it
	// Extra permits are given only if all are due now, and if they can be used for
	// LastingMicros. With a LastingMicros of 0 there are none.
	Extra         int64
	LastingMicros float64
}

// Given are the permits (Before, Before+Permits]. A Before of -1 says that nothing was
// given, and nothing changed.
type Given struct {
	SeenMicros int64 // the time
	Before     int64
	DueMicros  int64 // of permit Before, from now
	Idle       int64
	Permits    int64
}

// Quick gives a caller the next permits, as a take of them in one row would, if
// the line is plain and the caller saw all that matters of it: it must say with
// what serial it made its last call, and when that was, and how many processes it
// was told of. It counts nobody.
func (l *Line) Quick(now int64, limit Limit, c Caller, r Row) Given {
	nothing := Given{SeenMicros: now, Before: -1}
	if c.Member == "" || c.Serial == 0 || !l.saw(now, limit, c) {
		return nothing
	}
	at := l.Clone()
	at.call = call{}
	at.seen = now

	low, extra := float64(now)-at.fillMicros(), r.Extra
	if r.LastingMicros == 0 {
		extra = 0
	}
	if extra > 0 {
		first := max(at.Due(at.tail), low+r.LastingMicros)
		if first+float64(float64(r.Permits+extra)*limit.IntervalMicros) > float64(now) {
			extra = 0
		} else {
			low += r.LastingMicros
		}
	}
	at.overflow(low)
	given := Given{
		SeenMicros: now, Before: at.tail, DueMicros: up(at.Due(at.tail) - float64(now)),
		Idle: at.idle, Permits: r.Permits + extra,
	}
	last := at.tail + given.Permits
	if at.Due(at.tail)-float64(now) > r.SlackMicros || at.Due(last)-float64(now) > LongestMicros || last > most {
		return nothing
	}
	at.tail, at.final = last, last // nothing is free, nobody waits
	at.write(c, record{serial: c.Serial, row: true, before: given.Before})
	*l = *at
	return given
}

// Plain reports whether a new ticket simply comes after the last one, as the last
// call left the line.
func (l *Line) Plain() bool {
	return l.tail == l.final && len(l.free) == 0 && max(l.resume, l.pause) <= l.seen && l.set.IntervalMicros == 0
}

// saw reports whether the line is plain, and for this caller the same as ever: no
// other limit, nobody who came or went, no clock that was stepped, no data that was
// lost.
func (l *Line) saw(now int64, limit Limit, c Caller) bool {
	if !l.made || !l.Plain() || c.Epoch != l.epoch || c.Live != l.live || limit != l.limit {
		return false
	}
	if now < l.seen || now-l.seen > stepMicros && float64(now)-c.ClockMicros > stepMicros {
		return false
	}
	own, known := l.members[c.Member]
	return known && c.SeenMicros > 0 && own.seen == c.SeenMicros && own.serial == c.LastSerial
}
