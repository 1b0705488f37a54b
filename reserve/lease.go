package reserve

// LeaseStats counts the permits that a process took ahead of its calls; see [Config.Lease]. Taken
// is the sum of Used, Returned, Lapsed, and the permits that the process holds now.
type LeaseStats struct {
	Taken    int64 // from the bucket
	Used     int64 // by calls
	Returned int64 // to the bucket
	Lapsed   int64 // lost: they were not used in time, and the bucket had no room for them
}

// LeaseStats returns the counts since the Limiter was made, for all of its keys together.
func (l *Limiter) LeaseStats() LeaseStats {
	s := l.core.process.LeaseStats(l.core.name)
	return LeaseStats{s.Taken, s.Used, s.Returned, s.Lapsed}
}
