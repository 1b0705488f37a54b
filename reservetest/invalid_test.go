package reservetest_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/reservetest"
)

// fatal is a test that notes what ends it.
type fatal struct {
	testing.TB
	said string
}

var errFatal = errors.New("fatal")

func (f *fatal) Fatal(args ...any)         { f.said = fmt.Sprint(args...); panic(errFatal) }
func (f *fatal) Fatalf(s string, a ...any) { f.Fatal(fmt.Sprintf(s, a...)) }

func TestWrongInput(t *testing.T) {
	api := func(limits ...reserve.Limit) func(t *fatal) {
		return func(t *fatal) { reservetest.NewAPI(t, limits...) }
	}
	const kinds = "must be paced, rolling, or a quota of a minute, an hour or a day in UTC, got "
	for says, wrong := range map[string]func(t *fatal){
		"Outage: d must be at least 0, got -1s":     func(t *fatal) { reservetest.New(t).Outage(-time.Second) },
		"Delay: d must be at least 0, got -1s":      func(t *fatal) { reservetest.New(t).Delay(-time.Second) },
		"LoseReplies: n must be at least 0, got -1": func(t *fatal) { reservetest.New(t).LoseReplies(-1) },

		"limits[0] of an API: " + kinds + "5 at once": api(reserve.Concurrent(5)),
		kinds + "1/s warmup 1s":                       api(reserve.PerSecond(1).WarmUp(time.Second)),
		kinds + "10/month quota":                      api(reserve.Quota(10, reserve.CalendarMonth)),
		kinds + "10/day quota in Europe/Berlin":       api(reserve.Quota(10, reserve.CalendarDay).In(berlin(t))),
		"limits[1] of an API: reserve: invalid Limit: rate must be a number above 0, got -1": api(reserve.PerSecond(1), reserve.PerSecond(-1)),

		"NewAPIHandler: answer must not be nil": func(t *fatal) { reservetest.NewAPIHandler(t, nil) },
		"Limiter: reserve: invalid Config.Name": func(t *fatal) { reservetest.New(t).Limiter(reserve.Config{Limit: reserve.PerSecond(1)}) },
		"Joint: reserve: invalid Config.Name":   func(t *fatal) { reservetest.New(t).Joint(reserve.Config{Limit: reserve.PerSecond(1)}) },
		"must have the same Config.Group, which is not empty": func(t *fatal) {
			reservetest.New(t).Joint(config(reserve.PerSecond(1)), reserve.Config{Name: "other", Limit: reserve.PerSecond(1)})
		},
		"must be from 1 to 8, got 0": func(t *fatal) { reservetest.New(t).Joint() },
	} {
		f := &fatal{TB: t}
		func() {
			defer func() { assert.Equal(t, errFatal, recover(), says) }()
			wrong(f)
		}()
		assert.Contains(t, f.said, "reservetest: ")
		assert.Contains(t, f.said, says)
	}
}

func berlin(t testing.TB) *time.Location {
	zone, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	return zone
}
