package reserve_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

func TestLimitText(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit reserve.Limit
		print string
	}{
		{"100/s", reserve.PerSecond(100), "100/s"},
		{"0.2/s", reserve.PerSecond(0.2), "0.2/s"},
		{"600/minute", reserve.PerMinute(600), "600/minute"},
		{"600/m", reserve.PerMinute(600), "600/minute"},
		{"1000/minute burst 200", reserve.PerMinute(1000).Burst(200), "1000/minute burst 200"},
		{" 1000/minute  burst  200 ", reserve.PerMinute(1000).Burst(200), "1000/minute burst 200"},
		{"5/s burst 1", reserve.PerSecond(5), "5/s"},
		{"30/hour", reserve.PerHour(30), "30/hour"},
		{"20000/day", reserve.PerDay(20000), "20000/day"},
		{"1/250ms", reserve.Every(250 * time.Millisecond), "1/250ms"},
		{"5/10s", reserve.Limit{}, "5/10s"},
		{"1e3/s", reserve.PerSecond(1000), "1000/s"},
		{"1/1us", reserve.Every(time.Microsecond), "1/1µs"},
		{"1000000/s burst 1000000000", reserve.PerSecond(1e6).Burst(1e9), "1000000/s burst 1000000000"},
	} {
		l, err := reserve.ParseLimit(c.text)
		require.NoError(t, err, c.text)
		if c.limit != (reserve.Limit{}) {
			require.Equal(t, c.limit, l, c.text)
		}
		require.Equal(t, c.print, l.String())
		again, err := reserve.ParseLimit(l.String())
		require.NoError(t, err)
		require.Equal(t, l, again)
		text, err := l.MarshalText()
		require.NoError(t, err)
		var read reserve.Limit
		require.NoError(t, read.UnmarshalText(text))
		require.Equal(t, l, read)
	}
}

func TestLimitNumbers(t *testing.T) {
	l := reserve.PerMinute(30)
	require.Equal(t, 2*time.Second, l.Interval())
	require.InDelta(t, 0.5, l.Rate(), 1e-12)
	require.Equal(t, 1, l.MaxBurst())
	require.Equal(t, 7, l.Burst(7).MaxBurst())
	require.Equal(t, 1, l.MaxBurst(), "Burst changes a copy")
	require.Equal(t, reserve.PerSecond(5), reserve.PerSecond(5).Burst(1))
}

// The window of a quota is that of its zone.
func TestWindow(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	at := time.Date(2024, 3, 31, 12, 0, 0, 0, berlin) // a day of 23 hours
	begin, end := reserve.Quota(5, reserve.CalendarDay).In(berlin).Window(at)
	require.Equal(t, "2024-03-30T23:00:00Z 2024-03-31T22:00:00Z", begin.UTC().Format(time.RFC3339)+" "+end.UTC().Format(time.RFC3339))
	begin, end = reserve.PerSecond(1).Window(at)
	require.True(t, begin.IsZero() && end.IsZero())
}
