package model

import "math"

// Pause lets nothing be due for so many micros: every turn moves later by what is still
// to go, and then the bucket is empty. Of several pauses the one that ends last counts.
func (l *Line) Pause(now int64, limit Limit, c Caller, micros float64) Reply {
	if l.stale(c) {
		return Reply{Stale: true}
	}
	l.upToNow(now, limit, c)
	if end := up(float64(now) + min(micros, LongestMicros)); end > max(now, l.pause) {
		l.pauseUntil(end)
	}
	l.sign(c, nil)
	return l.reply(nil)
}

func (l *Line) pauseUntil(end int64) {
	now := float64(l.seen)
	gone := l.gone()
	if gone > l.tail {
		l.unused(float64(gone - l.tail))
		l.tail = gone
	}
	l.final, l.floor = max(l.final, gone), gone
	late := min(math.Ceil(float64(end)-l.Due(gone+1)), math.Floor(now+LongestMicros-l.Due(l.tail)))
	late = max(0, late)
	l.anchorMicros += late
	if l.pauseIn() == 0 {
		l.paused = 0
	}
	l.pause, l.paused = end, l.paused+int64(late)
	l.gen++
}

// gone is the last permit that is not used after a pause that begins now: it is due, and
// no number that waits has it.
func (l *Line) gone() int64 {
	last := l.available()
	for _, t := range l.Waiting() {
		last = min(last, t.Number-t.Cost)
	}
	return max(last, l.floor)
}

// Resume ends a pause: every turn moves earlier by what is still to go of it, as far as
// the pause had moved it.
func (l *Line) Resume(now int64, limit Limit, c Caller) Reply {
	if l.stale(c) {
		return Reply{Stale: true}
	}
	l.upToNow(now, limit, c)
	if rest := l.pauseIn(); rest > 0 {
		l.anchorMicros -= float64(min(rest, l.paused))
		l.pause, l.paused = 0, 0
		l.gen++
		if l.resumeIn() > 0 {
			l.hold()
		}
	}
	l.sign(c, nil)
	return l.reply(nil)
}

// Paused is by how much the last pause moved the line, in micros.
func (l *Line) Paused() int64 { return l.paused }

func (l *Line) pauseIn() int64 { return max(0, l.pause-l.seen) }
