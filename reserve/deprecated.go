package reserve

import "context"

// Joined is the earlier name of Booked.
//
// Deprecated: use [Booked].
type Joined = Booked

// Join is the earlier name of Book.
//
// Deprecated: use [Joint.Book].
func (j *Joint) Join(ctx context.Context, calls []Call) []Booked { return j.Book(ctx, calls) }

// Leave is the earlier name of CancelBooking.
//
// Deprecated: use [Joint.CancelBooking].
func (j *Joint) Leave(ctx context.Context, id string, costs ...int) error {
	return j.CancelBooking(ctx, id, costs...)
}

// Book is the earlier name of PutBack.
//
// Deprecated: use [Reservation.PutBack].
func (r *Reservation) Book(ctx context.Context) error { return r.PutBack(ctx) }

// Keep is the earlier name of PutBackUnsure.
//
// Deprecated: use [Reservation.PutBackUnsure].
func (r *Reservation) Keep(ctx context.Context) error { return r.PutBackUnsure(ctx) }

// Final is the earlier name of Granted.
//
// Deprecated: use [Reservation.Granted].
func (r *Reservation) Final() bool { return r.Granted() }

// LeaseStats is what PrefetchStats was.
//
// Deprecated: use [PrefetchStats].
type LeaseStats struct {
	Taken    int64 // see PrefetchStats
	Used     int64 // see PrefetchStats
	Returned int64 // see PrefetchStats
	Lapsed   int64 // PrefetchStats.Expired
}

// LeaseStats is the earlier name of PrefetchStats.
//
// Deprecated: use [Limiter.PrefetchStats].
func (l *Limiter) LeaseStats() LeaseStats {
	s := l.PrefetchStats()
	return LeaseStats{s.Taken, s.Used, s.Returned, s.Expired}
}

// earlier returns an error if a deprecated field and the one that replaces it disagree. The Config has its defaults.
func (c Config) earlier() error {
	if c.Lease != 0 && c.Lease != c.Prefetch {
		return invalid("Config.Lease", "is the earlier name of Config.Prefetch: set one of them, got %v and %v", c.Lease, c.Prefetch)
	}
	if o := c.Outage; o.Share != 0 && o.Share != o.FallbackFraction {
		return invalid("Config.Outage.Share", "is the earlier name of Config.Outage.FallbackFraction: set one of them, got %v and %v", o.Share, o.FallbackFraction)
	}
	return nil
}
