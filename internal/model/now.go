package model

import (
	"math"
	"slices"
)

// upToNow brings the line to the present: the clock, data that was lost, the
// rate, the bucket.
func (l *Line) upToNow(now int64, limit Limit, c Caller) {
	l.call = call{}
	if !l.made {
		l.create(now, limit, c)
		return
	}
	before := l.seen
	own, known := l.members[c.Member]
	l.call.replay = known && c.Serial > 0 && c.Serial == own.serial
	l.call.epochRead = l.epoch
	l.call.quiet = now - before
	if now < before {
		l.stepBack(before - now)
	}
	l.seen = now
	if c.ClockMicros > 0 {
		unseen := min(float64(now-before), math.Floor(float64(now)-c.ClockMicros))
		if unseen > stepMicros {
			l.stepAhead(int64(unseen))
		}
	}
	l.restore(c, before)
	if l.until > 0 && l.until <= now {
		ended := l.until
		l.set, l.until = Limit{}, 0
		l.relimit(limit, ended)
	}
	limit = l.governed(limit)
	if limit.IntervalMicros != l.limit.IntervalMicros {
		l.retime(limit.IntervalMicros, now)
	}
	l.limit.Burst = limit.Burst
	l.overflow(float64(now) - l.fillMicros())
}

// create begins a line where the caller saw it end, or has to expect its end, or with
// a full bucket.
func (l *Line) create(now int64, limit Limit, c Caller) {
	reach := min(c.ReachMicros, LongestMicros)
	*l = Line{made: true, epoch: now, seen: now, limit: limit, counted: now, call: call{fresh: true}}
	l.anchorMicros = float64(now) + max(min(reach+c.LaterMicros, LongestMicros), -l.fillMicros())
	l.unused(math.Floor(-reach/limit.IntervalMicros - float64(limit.Burst)))
	if c.Member != "" {
		l.live = 1
	}
}

// shift moves the line later, but not beyond the longest. Final tickets keep their
// moment, so what stands before them is not used any more.
func (l *Line) shift(micros float64) {
	micros = min(micros, float64(l.seen)+LongestMicros-l.Due(l.tail))
	l.anchorMicros += max(0, micros)
	l.floor = max(l.floor, l.final)
}

// stepBack moves the line back with the clock. Final tickets keep their moment.
func (l *Line) stepBack(micros int64) {
	l.anchorMicros -= float64(micros)
	l.floor = max(l.floor, l.final)
	l.resume = max(0, l.resume-micros)
	l.pause = max(0, l.pause-micros)
	if l.until > 0 {
		l.until = max(1, l.until-micros)
	}
	l.counted = l.seen - micros
}

// stepAhead moves the line ahead with the clock: by what nobody saw passing.
func (l *Line) stepAhead(micros int64) {
	l.shift(float64(micros))
	if l.resume > 0 {
		l.resume += micros
	}
	if l.pause > 0 {
		l.pause += micros
	}
	if l.until > 0 {
		l.until += micros
	}
	l.counted = l.seen
	l.call.quiet -= micros
}

// restore lets the line go on where the caller saw it end, if data was lost.
// After a rollback the others are told, by a new epoch, to do the same.
func (l *Line) restore(c Caller, before int64) {
	switch {
	case c.Epoch == 0:
		return
	case c.Epoch != l.epoch:
		if l.behind(c) > 0 {
			l.shift(l.behind(c))
		}
	case l.missed(c, before):
		if l.epoch == l.seen {
			l.epoch++
		} else {
			l.epoch = l.seen
		}
		l.shift(l.behind(c))
	}
}

// behind is by how much the last final ticket is due before the one that the
// caller knows.
func (l *Line) behind(c Caller) float64 {
	return math.Ceil(float64(l.seen) + min(c.ReachMicros, LongestMicros) - l.Due(l.final))
}

// missed reports whether the line has forgotten the caller's last call.
func (l *Line) missed(c Caller, before int64) bool {
	own, known := l.members[c.Member]
	isNew := !known
	if isNew {
		own, known = l.members[process(c.Member)]
	}
	latest := float64(before)
	if c.ClockMicros > 0 {
		latest = min(latest, c.ClockMicros+stepMicros)
	}
	switch {
	case l.call.replay:
		return false // it holds this very call
	case l.seen < c.SeenMicros:
		return false // its clock went back
	case known && float64(own.seen) <= latest: // else the clock went back since
		return c.SeenMicros > own.seen
	case known && isNew:
		return c.SeenMicros > before
	default:
		return c.SeenMicros > before || c.Member != "" && l.seen-c.SeenMicros < aliveMicros
	}
}

// hold lets nothing be due before everybody comes back from an outage.
func (l *Line) hold() {
	if early := math.Ceil(float64(l.resume) - l.Due(l.foremost()+1)); early > 0 {
		l.shift(early)
	}
}

// foremost is the last permit before the first number beyond the final mark that
// waits or is free; the tail when there is none.
func (l *Line) foremost() int64 {
	before, mark := l.tail, max(l.floor, l.final)
	for _, t := range slices.Concat(l.waiting, l.free) {
		if start := t.Number - t.Cost; start >= mark {
			before = min(before, start)
		}
	}
	return before
}

func (l *Line) resumeIn() int64 { return max(0, l.resume-l.seen) }

// retime changes the interval since a moment: what was still to go then, after a pause,
// becomes as many intervals of the new length.
func (l *Line) retime(interval float64, since int64) {
	from := float64(max(since, l.pause))
	intervals := (l.Due(l.tail) - from) / l.limit.IntervalMicros
	l.anchor, l.anchorMicros = l.tail, min(from+math.Ceil(intervals*interval), float64(l.seen)+LongestMicros)
	l.limit.IntervalMicros = interval
	if l.resumeIn() > 0 {
		l.hold()
	}
}

// overflow drops the permits that were due before low: they did not fit in the
// bucket. While numbers may wait beyond the final ones the line gets late by them
// instead.
func (l *Line) overflow(low float64) {
	due := l.Due(l.tail)
	if due >= low {
		return
	}
	gone := up((low - due) / l.limit.IntervalMicros)
	l.unused(float64(gone))
	if l.tail == l.final {
		l.tail += gone
		l.final = l.tail
		l.call.skipped, l.call.top = gone, l.tail
	} else {
		l.floor = max(l.floor, l.final)
	}
	l.anchor, l.anchorMicros = l.tail, low
}
