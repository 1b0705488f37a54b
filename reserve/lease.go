package reserve

// LeaseStats counts the permits that a process took ahead of its calls; see
// [Config.Lease]. Taken is the sum of the others and of those that it holds.
type LeaseStats struct {
	Taken    int64 // from the bucket
	Used     int64 // by calls
	Returned int64 // to the bucket
	Lapsed   int64 // lost: nobody used them while they fitted in the bucket
}

// LeaseStats returns the counts since the Limiter was made, for all of its keys together.
func (l *Limiter) LeaseStats() LeaseStats {
	s := l.core.asker.LeaseStats(l.core.name)
	return LeaseStats{s.Taken, s.Used, s.Returned, s.Lapsed}
}
