package calendar

import "time"

// Window returns the window that contains t: start <= t < end, both on the clock of the location. Equal
// windows have equal bounds, so the start is a name for the window. A nil location means UTC. The window of
// a Unit that is not valid is empty: both bounds are the zero time.
func (u Unit) Window(t time.Time, loc *time.Location) (start, end time.Time) {
	if loc == nil {
		loc = time.UTC
	}
	switch {
	case !u.valid():
		return time.Time{}, time.Time{}
	case u == Minute:
		start = t.Round(0).UTC().Truncate(time.Minute)
		return start.In(loc), start.Add(time.Minute).In(loc)
	}
	// The time that the clock shows may belong to a window that ended before the clock was set back. Then a
	// later window has begun already.
	face := u.begin(clock(t.Round(0).In(loc)))
	for {
		next := u.next(face)
		if end = reach(next, loc); end.After(t) {
			return reach(face, loc), end
		}
		face = next
	}
}

// A face is what a clock shows, as the moment at which a clock in UTC shows it.
type face = time.Time

func clock(local time.Time) face {
	_, offset := local.Zone()
	return local.UTC().Add(time.Duration(offset) * time.Second)
}

// begin returns the face at which the window of a face begins.
func (u Unit) begin(f face) face {
	year, month, day := f.Date()
	switch u {
	case Hour:
		return f.Truncate(time.Hour)
	case Week:
		sinceMonday := (int(f.Weekday()) + 6) % 7
		day -= sinceMonday
	case Month:
		day = 1
	}
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// next returns the face at which the window after the one that begins with f begins.
func (u Unit) next(f face) face {
	switch u {
	case Hour:
		return f.Add(time.Hour)
	case Week:
		return f.AddDate(0, 0, 7)
	case Month:
		return f.AddDate(0, 1, 0)
	default:
		return f.AddDate(0, 0, 1)
	}
}

// farthest is more than any zone was ever ahead of UTC: the most was 15 hours 14 minutes.
const farthest = 24 * time.Hour

// reach returns the first moment at which the clock of a location shows f or later.
func reach(f face, loc *time.Location) time.Time {
	at := f.Add(-farthest).In(loc)
	for {
		_, offset := at.Zone()
		since, until := at.ZoneBounds() // the time in which this offset applies; zero: unbounded
		if !until.IsZero() && !until.After(at) {
			// From 2038 on, where zones follow a rule, ZoneBounds says about the last day of a leap year
			// that the offset ended as the day began. In fact the offset continues.
			until = at.Add(time.Hour)
		}
		shown := f.Add(-time.Duration(offset) * time.Second).In(loc)
		if !since.IsZero() && shown.Before(since) { // the clock skips f
			shown = since
		}
		if until.IsZero() || shown.Before(until) {
			return shown
		}
		at = until
	}
}
