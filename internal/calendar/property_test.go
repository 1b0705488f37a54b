package calendar_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fleetpace/fleetpace/internal/calendar"
)

// zones are some whose clocks did something unusual, and some whose clocks did not.
var zones = []string{
	"UTC", "Europe/Berlin", "Europe/London", "Europe/Dublin", "Europe/Lisbon", "Europe/Moscow", "Europe/Volgograd",
	"America/New_York", "America/Los_Angeles", "America/Anchorage", "America/Sao_Paulo", "America/Asuncion",
	"America/Santiago", "America/Havana", "America/Caracas", "America/St_Johns", "America/Goose_Bay",
	"America/Scoresbysund", "America/Nuuk", "America/Argentina/San_Luis", "America/Godthab",
	"Africa/Cairo", "Africa/Casablanca", "Africa/Monrovia", "Africa/Khartoum", "Africa/Juba",
	"Asia/Beirut", "Asia/Amman", "Asia/Damascus", "Asia/Gaza", "Asia/Tehran", "Asia/Kolkata", "Asia/Kathmandu",
	"Asia/Dhaka", "Asia/Pyongyang", "Asia/Singapore", "Asia/Hong_Kong", "Asia/Anadyr", "Asia/Ulaanbaatar",
	"Australia/Lord_Howe", "Australia/Adelaide", "Australia/Eucla", "Antarctica/Troll", "Antarctica/Casey",
	"Antarctica/Vostok", "Pacific/Apia", "Pacific/Fakaofo", "Pacific/Kiritimati", "Pacific/Enderbury",
	"Pacific/Kwajalein", "Pacific/Chatham", "Pacific/Norfolk", "Pacific/Easter", "Pacific/Tongatapu",
}

const (
	first = 0             // 1970, in seconds
	last  = 4_102_444_800 // 2100
)

// drawTime is any time, or one close to a moment at which clocks were set.
func drawTime(t *rapid.T, loc *time.Location) time.Time {
	at := time.Unix(rapid.Int64Range(first, last).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds"))
	if rapid.Bool().Draw(t, "near a change") {
		if _, end := at.In(loc).ZoneBounds(); !end.IsZero() {
			at = end.Add(time.Duration(rapid.Int64Range(int64(-26*time.Hour), int64(26*time.Hour)).Draw(t, "beside it")))
		}
	}
	return at
}

// Windows tile time: each moment is in its window, and windows touch.
func TestWindowsTileTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loc := zone(t, rapid.SampledFrom(zones).Draw(t, "zone"))
		unit := calendar.Unit(rapid.IntRange(int(calendar.Minute), int(calendar.Month)).Draw(t, "unit"))
		at := drawTime(t, loc)

		start, end := unit.Window(at, loc)
		require.Falsef(t, at.Before(start), "%v begins at %v, after %v", unit, start, at)
		require.Truef(t, at.Before(end), "%v ends at %v, before %v", unit, end, at)

		next, _ := unit.Window(end, loc)
		require.Equal(t, end, next, "the next window begins where this one ends")
		_, before := unit.Window(start.Add(-1), loc)
		require.Equal(t, start, before, "the window before ends where this one begins")

		same := []time.Time{start, end.Add(-1), start.Add(end.Sub(start) / 3)}
		for _, other := range same {
			from, to := unit.Window(other, loc)
			require.Equal(t, start, from, "all of its moments have the same window")
			require.Equal(t, end, to)
		}
	})
}

// The rule of the package documentation in its plainest form. The test walks through time in steps of half
// an hour. A window begins when the clock shows a date or an hour that is later than all that it showed
// before.
func TestWindowsAgainstAWalk(t *testing.T) {
	const step = 30 * time.Minute // all changes of these zones are at such moments
	labels := map[calendar.Unit]func(time.Time) time.Time{
		calendar.Hour:  func(c time.Time) time.Time { return c.Truncate(time.Hour) },
		calendar.Day:   func(c time.Time) time.Time { return c.Truncate(24 * time.Hour) },
		calendar.Week:  func(c time.Time) time.Time { return c.Truncate(7 * 24 * time.Hour) }, // year 1 began on a Monday
		calendar.Month: func(c time.Time) time.Time { return time.Date(c.Year(), c.Month(), 1, 0, 0, 0, 0, time.UTC) },
	}
	changes := 0
	for _, name := range []string{
		"America/New_York", "America/Sao_Paulo", "America/Havana", "Asia/Beirut", "Asia/Pyongyang",
		"Australia/Lord_Howe", "Antarctica/Troll", "Pacific/Apia", "Pacific/Kwajalein", "Pacific/Easter", "Europe/Lisbon",
	} {
		loc := zone(t, name)
		at := time.Date(1987, 1, 1, 0, 0, 0, 0, time.UTC)
		for {
			_, change := at.In(loc).ZoneBounds()
			if change.IsZero() || change.Year() >= 2030 {
				break
			}
			changes++
			at = change
			walk(t, loc, labels, change.Add(-50*time.Hour).Truncate(time.Hour), change.Add(50*time.Hour), step)
		}
	}
	t.Logf("CALENDAR %d changes of clocks walked through", changes)
	require.Greater(t, changes, 400)
}

func walk(t *testing.T, loc *time.Location, labels map[calendar.Unit]func(time.Time) time.Time, from, to time.Time, step time.Duration) {
	var highest time.Time
	starts := make(map[calendar.Unit]time.Time)
	for at := from; at.Before(to); at = at.Add(step) {
		local := at.In(loc)
		face := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), 0, 0, time.UTC)
		for unit, label := range labels {
			if !highest.IsZero() && label(face).After(label(highest)) {
				starts[unit] = at
			}
			if start, known := starts[unit]; known {
				got, _ := unit.Window(at, loc)
				if !got.Equal(start) {
					t.Fatalf("%v, %v: the %v began at %v, got %v", loc, local, unit, start.In(loc), got)
				}
			}
		}
		if face.After(highest) {
			highest = face
		}
	}
}
