package reserve

import "time"

// terms are the limit that is in force for a line: that of this process, or one that was
// set for the whole fleet.
type terms struct {
	interval float64 // micros per permit
	burst    int64   // permits
}

// step is the time between two turns of a cost.
func (t terms) step(cost int64) time.Duration {
	return time.Duration(float64(cost) * t.interval * float64(time.Microsecond))
}

// slack is for how long a turn can be used: while its permits are in the bucket.
func (t terms) slack(cost int64) time.Duration {
	return time.Duration(float64(max(0, t.burst-cost))*t.interval) * time.Microsecond
}

// rate is permits per second.
func (t terms) rate() float64 { return float64(time.Second/time.Microsecond) / t.interval }

// terms of the line, as of the last reply. The line must be locked.
func (l *line) terms() terms {
	if l.inForce.burst == 0 {
		return l.core.terms()
	}
	return l.inForce
}

// terms of this process.
func (c *core) terms() terms { return terms{c.interval, int64(c.cfg.Limit.MaxBurst())} }
