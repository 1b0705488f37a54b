package world

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// The judge of real processes accepts calls that follow plans of other kinds, and finds each call too many.
func TestJudge(t *testing.T) {
	every := func(each, from, to time.Duration) (calls []time.Duration) {
		for at := from; at < to; at += each {
			calls = append(calls, at)
		}
		return calls
	}
	const ms, s = time.Millisecond, time.Second
	rate, faster := reserve.PerSecond(10).Burst(3), reserve.PerSecond(20)
	quota, rolling := reserve.Quota(30, reserve.CalendarMinute), reserve.Rolling(9, 3*s)
	paced := slices.Concat(every(1, 0, 3), every(100*ms, 100*ms, 4100*ms))
	for _, c := range []struct {
		limits []reserve.Limit
		calls  []time.Duration
		more   time.Duration // one call more here is refused
	}{
		{[]reserve.Limit{rate}, slices.Concat(paced, every(100*ms, 4100*ms, 8*s)), 7950 * ms},
		{[]reserve.Limit{rate, faster}, slices.Concat(paced, every(50*ms, 4150*ms, 8*s)), 7910 * ms},
		{[]reserve.Limit{rate, quota}, slices.Concat(paced, every(ms, 5*s, 5027*ms)), 5100 * ms}, // 3 were used
		{[]reserve.Limit{rate, quota}, slices.Concat(paced, every(ms, 5*s, 5027*ms)), 4900 * ms},
		{[]reserve.Limit{rate, rolling}, slices.Concat(paced, every(ms, 5*s, 5006*ms), every(ms, 7001*ms, 7004*ms)), 7002 * ms},
		{[]reserve.Limit{quota, rate}, slices.Concat(every(ms, 0, 30*ms), every(100*ms, 5100*ms, 8*s)), 5050 * ms},
		{[]reserve.Limit{rolling, quota}, slices.Concat(every(ms, 0, 9*ms), every(ms, 3*s, 3009*ms), every(ms, 5*s, 5021*ms)), 5100 * ms},
	} {
		limits := []InForce{{0, c.limits[0]}}
		for _, l := range c.limits[1:] {
			limits = append(limits, InForce{4 * s, l})
		}
		began := time.Unix(1_700_000_010, 0)
		refused, used := Judge(began, limits, c.calls, 0, 8*s)
		require.Empty(t, refused, c.limits)
		require.GreaterOrEqual(t, used, 0.97, c.limits)
		more := append(slices.Clone(c.calls), c.more)
		slices.Sort(more)
		refused, _ = Judge(began, limits, more, 0, 8*s)
		require.NotEmpty(t, refused, c.limits)
		_, used = Judge(began, limits, c.calls[:len(c.calls)/2], 0, 8*s)
		require.Less(t, used, 0.97, "half of the calls of %v", c.limits)
	}
	// Of a quota, a rate and the quota again, in one window: 20 permits were used, and one that the bucket lacks.
	back := []InForce{{0, quota}, {5 * s, rate}, {8 * s, quota}}
	for most, refuses := range map[time.Duration]int{9009 * ms: 0, 9015 * ms: 6} {
		calls := slices.Concat(every(ms, 4*s, 4020*ms), []time.Duration{7950 * ms}, every(ms, 9*s, most))
		refused, _ := Judge(time.Unix(1_699_999_990, 0), back, calls, 0, 20*s)
		require.Len(t, refused, refuses)
	}
}
