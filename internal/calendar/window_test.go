package calendar_test

import (
	"testing"
	"time"
	_ "time/tzdata" // so that the tests have zones on every machine

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/calendar"
)

func zone(t require.TestingT, name string) *time.Location {
	loc, err := time.LoadLocation(name)
	require.NoError(t, err)
	return loc
}

// The cases that break calendars: what the clocks of each zone did on an unusual day.
func TestWindowsWhereClocksAreSet(t *testing.T) {
	tests := map[string]struct {
		zone       string
		unit       calendar.Unit
		at         string
		start, end string
	}{
		"a minute":                            {"Asia/Kolkata", calendar.Minute, "2026-03-04T12:34:56+05:30", "2026-03-04T12:34:00+05:30", "2026-03-04T12:35:00+05:30"},
		"an hour, half an hour beside UTC":    {"Asia/Kolkata", calendar.Hour, "2026-03-04T12:34:56+05:30", "2026-03-04T12:00:00+05:30", "2026-03-04T13:00:00+05:30"},
		"an hour, 45 minutes beside UTC":      {"Asia/Kathmandu", calendar.Hour, "2026-03-04T12:34:56+05:45", "2026-03-04T12:00:00+05:45", "2026-03-04T13:00:00+05:45"},
		"a day":                               {"Asia/Kolkata", calendar.Day, "2026-03-04T00:00:00+05:30", "2026-03-04T00:00:00+05:30", "2026-03-05T00:00:00+05:30"},
		"its last moment":                     {"Asia/Kolkata", calendar.Day, "2026-03-04T23:59:59.999999999+05:30", "2026-03-04T00:00:00+05:30", "2026-03-05T00:00:00+05:30"},
		"another date in UTC":                 {"America/Los_Angeles", calendar.Day, "2026-01-01T03:00:00Z", "2025-12-31T00:00:00-08:00", "2026-01-01T00:00:00-08:00"},
		"a week begins on Monday":             {"Europe/Berlin", calendar.Week, "2026-03-01T23:59:59+01:00", "2026-02-23T00:00:00+01:00", "2026-03-02T00:00:00+01:00"},
		"Monday is its first day":             {"Europe/Berlin", calendar.Week, "2026-03-02T00:00:00+01:00", "2026-03-02T00:00:00+01:00", "2026-03-09T00:00:00+01:00"},
		"a week of two years":                 {"UTC", calendar.Week, "2027-01-01T00:00:00Z", "2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z"},
		"a month of 28 days":                  {"UTC", calendar.Month, "2026-02-28T23:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		"a month of 29 days":                  {"UTC", calendar.Month, "2028-02-29T23:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		"December":                            {"UTC", calendar.Month, "2026-12-31T23:00:00Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		"the last day of a leap year":         {"America/New_York", calendar.Day, "2040-12-31T12:00:00-05:00", "2040-12-31T00:00:00-05:00", "2041-01-01T00:00:00-05:00"},
		"the last hour of a leap year":        {"Pacific/Chatham", calendar.Hour, "2040-12-31T23:30:00+13:45", "2040-12-31T23:00:00+13:45", "2041-01-01T00:00:00+13:45"},
		"before 1970":                         {"UTC", calendar.Minute, "1969-12-31T23:59:30Z", "1969-12-31T23:59:00Z", "1970-01-01T00:00:00Z"},
		"a day of 23 hours":                   {"America/New_York", calendar.Day, "2024-03-10T12:00:00-04:00", "2024-03-10T00:00:00-05:00", "2024-03-11T00:00:00-04:00"},
		"a day of 25 hours":                   {"America/New_York", calendar.Day, "2024-11-03T12:00:00-05:00", "2024-11-03T00:00:00-04:00", "2024-11-04T00:00:00-05:00"},
		"a day of 24 hours and a half":        {"Australia/Lord_Howe", calendar.Day, "2024-04-07T12:00:00+10:30", "2024-04-07T00:00:00+11:00", "2024-04-08T00:00:00+10:30"},
		"a month with a skipped hour":         {"America/New_York", calendar.Month, "2024-03-20T00:00:00-04:00", "2024-03-01T00:00:00-05:00", "2024-04-01T00:00:00-04:00"},
		"the hour before a skipped one":       {"America/New_York", calendar.Hour, "2024-03-10T01:30:00-05:00", "2024-03-10T01:00:00-05:00", "2024-03-10T03:00:00-04:00"},
		"the hour after a skipped one":        {"America/New_York", calendar.Hour, "2024-03-10T03:30:00-04:00", "2024-03-10T03:00:00-04:00", "2024-03-10T04:00:00-04:00"},
		"an hour shown twice, first":          {"America/New_York", calendar.Hour, "2024-11-03T01:30:00-04:00", "2024-11-03T01:00:00-04:00", "2024-11-03T02:00:00-05:00"},
		"an hour shown twice, again":          {"America/New_York", calendar.Hour, "2024-11-03T01:30:00-05:00", "2024-11-03T01:00:00-04:00", "2024-11-03T02:00:00-05:00"},
		"a minute of an hour shown twice":     {"America/New_York", calendar.Minute, "2024-11-03T01:30:10-05:00", "2024-11-03T01:30:00-05:00", "2024-11-03T01:31:00-05:00"},
		"half an hour is skipped":             {"Australia/Lord_Howe", calendar.Hour, "2024-10-06T02:45:00+11:00", "2024-10-06T02:30:00+11:00", "2024-10-06T03:00:00+11:00"},
		"half an hour is shown twice":         {"Australia/Lord_Howe", calendar.Hour, "2024-04-07T01:45:00+10:30", "2024-04-07T01:00:00+11:00", "2024-04-07T02:00:00+10:30"},
		"midnight is skipped, Sao Paulo":      {"America/Sao_Paulo", calendar.Day, "2018-11-04T12:00:00-02:00", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"},
		"the day before that":                 {"America/Sao_Paulo", calendar.Day, "2018-11-03T23:59:59-03:00", "2018-11-03T00:00:00-03:00", "2018-11-04T01:00:00-02:00"},
		"midnight is skipped, Beirut":         {"Asia/Beirut", calendar.Day, "2024-03-31T01:00:00+03:00", "2024-03-31T01:00:00+03:00", "2024-04-01T00:00:00+03:00"},
		"the hour before midnight again":      {"America/Sao_Paulo", calendar.Day, "2018-02-17T23:30:00-03:00", "2018-02-17T00:00:00-02:00", "2018-02-18T00:00:00-03:00"},
		"a day is skipped, before":            {"Pacific/Apia", calendar.Day, "2011-12-29T23:00:00-10:00", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"},
		"a day is skipped, after":             {"Pacific/Apia", calendar.Day, "2011-12-31T00:00:00+14:00", "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"},
		"a week of six days":                  {"Pacific/Apia", calendar.Week, "2011-12-31T12:00:00+14:00", "2011-12-26T00:00:00-10:00", "2012-01-02T00:00:00+14:00"},
		"a month without its last day":        {"Pacific/Kiritimati", calendar.Month, "1994-12-30T12:00:00-10:00", "1994-12-01T00:00:00-10:00", "1995-01-01T00:00:00+14:00"},
		"midnight is shown twice, first":      {"America/St_Johns", calendar.Day, "2010-11-07T00:00:30-02:30", "2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30"},
		"the day before is shown again":       {"America/St_Johns", calendar.Day, "2010-11-06T23:30:00-03:30", "2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30"},
		"and so is its last hour":             {"America/St_Johns", calendar.Hour, "2010-11-06T23:30:00-03:30", "2010-11-07T00:00:00-02:30", "2010-11-07T01:00:00-03:30"},
		"seconds beside UTC, of UTC's minute": {"Africa/Monrovia", calendar.Minute, "1971-05-05T10:00:10Z", "1971-05-05T10:00:00Z", "1971-05-05T10:01:00Z"},
		"seconds beside UTC, of its own hour": {"Africa/Monrovia", calendar.Hour, "1971-05-05T10:00:10Z", "1971-05-05T09:44:30Z", "1971-05-05T10:44:30Z"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			loc := zone(t, test.zone)
			start, end := test.unit.Window(moment(t, test.at), loc)
			require.Equal(t, moment(t, test.start).In(loc).Format(time.RFC3339Nano), start.Format(time.RFC3339Nano))
			require.Equal(t, moment(t, test.end).In(loc).Format(time.RFC3339Nano), end.Format(time.RFC3339Nano))
		})
	}
}

func moment(t *testing.T, text string) time.Time {
	at, err := time.Parse(time.RFC3339Nano, text)
	require.NoError(t, err)
	return at
}

// Odd arguments cause no panic and no endless search.
func TestWindowOfOddArguments(t *testing.T) {
	now := time.Now() // with a reading of the monotonic clock
	for unit := calendar.Minute; unit <= calendar.Month; unit++ {
		start, end := unit.Window(now, nil)
		require.Equal(t, time.UTC, start.Location(), "a nil location is UTC")
		require.False(t, now.Before(start))
		require.True(t, now.Before(end))

		wide := time.FixedZone("", 40*60*60)
		start, end = unit.Window(now, wide)
		require.Equal(t, wide, end.Location())
		require.False(t, now.Before(start))
		require.True(t, now.Before(end))

		for _, at := range []time.Time{{}, time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)} {
			start, end := unit.Window(at, zone(t, "Europe/Berlin"))
			require.False(t, at.Before(start))
			require.True(t, at.Before(end))
		}
	}
	for _, unit := range []calendar.Unit{-1, 0, calendar.Month + 1} {
		start, end := unit.Window(now, time.UTC)
		require.True(t, start.IsZero())
		require.True(t, end.IsZero())
	}
}

func BenchmarkWindow(b *testing.B) {
	at, loc := time.Date(2050, 7, 8, 9, 10, 11, 0, time.UTC), zone(b, "America/New_York")
	for unit := calendar.Minute; unit <= calendar.Month; unit++ {
		b.Run(unit.String(), func(b *testing.B) {
			for b.Loop() {
				unit.Window(at, loc)
			}
		})
	}
}
