package calendar_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/calendar"
)

func TestUnitsHaveNames(t *testing.T) {
	for unit, name := range map[calendar.Unit]string{
		calendar.Minute: "minute", calendar.Hour: "hour", calendar.Day: "day", calendar.Week: "week", calendar.Month: "month",
	} {
		require.Equal(t, name, unit.String())
		got, err := calendar.ParseUnit(name)
		require.NoError(t, err)
		require.Equal(t, unit, got)
	}
	require.Equal(t, "Unit(0)", calendar.Unit(0).String())
	require.Equal(t, "Unit(6)", calendar.Unit(6).String())
}

func TestParseUnitRefuses(t *testing.T) {
	for _, text := range []string{"", "Day", "days", "second", "year", " day"} {
		_, err := calendar.ParseUnit(text)
		require.ErrorIs(t, err, calendar.ErrInvalid)
		require.ErrorContains(t, err, "use minute, hour, day, week or month")
	}
}
