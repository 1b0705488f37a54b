package model

import "math"

// Set makes a limit that of all callers, for so many micros or, with 0, until it is set
// again. The zero Limit is that of the callers again.
func (l *Line) Set(now int64, limit Limit, c Caller, to Limit, micros float64) Reply {
	if l.stale(c) {
		return Reply{Stale: true}
	}
	l.upToNow(now, limit, c)
	l.set, l.until = to, 0
	if micros > 0 && to.IntervalMicros > 0 {
		l.until = up(float64(now) + min(micros, LongestMicros))
	}
	l.relimit(limit, now)
	l.overflow(float64(now) - l.fillMicros())
	l.sign(c, nil)
	return l.reply(nil)
}

// governed is the limit that is in force for a caller who works with one.
func (l *Line) governed(own Limit) Limit {
	if l.set.IntervalMicros > 0 {
		return l.set
	}
	return own
}

// relimit lets the line go on with the limit that is in force since a moment; final
// tickets move along. What overflowed of a smaller bucket does not come back with a larger one.
func (l *Line) relimit(own Limit, since int64) {
	l.overflow(float64(l.seen) - l.fillMicros())
	to := l.governed(own)
	if to == l.limit {
		return
	}
	l.floor = max(l.floor, l.available()-l.limit.Burst)
	if to.IntervalMicros != l.limit.IntervalMicros {
		l.retime(to.IntervalMicros, since)
	}
	l.limit.Burst = to.Burst
	l.gen++
}

// available is the last permit that is due by now.
func (l *Line) available() int64 {
	return l.anchor + int64(math.Floor((float64(l.seen)-l.anchorMicros)/l.limit.IntervalMicros))
}

// setFor is for how long a limit is in force that was set; -1: for good.
func (l *Line) setFor() int64 {
	switch {
	case l.set.IntervalMicros == 0:
		return 0
	case l.until == 0:
		return -1
	default:
		return l.until - l.seen
	}
}

// KeptUntil is until when the state has to live for the sake of a limit that was set, in
// micros; 0: there is none.
func (l *Line) KeptUntil(now int64) float64 {
	switch {
	case l.set.IntervalMicros == 0:
		return 0
	case l.until == 0:
		return math.Floor(float64(now)/1000)*1000 + LongestMicros
	default:
		return float64(l.until) + 1e6
	}
}
