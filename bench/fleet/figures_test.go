package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// start is when a made-up history begins; at is a moment of it.
var start = time.Unix(1_000, 0)

func at(millis int) time.Time { return start.Add(time.Duration(millis) * time.Millisecond) }

func jobsOf(lines ...string) []job {
	return number(len(lines), func(i int) string { return lines[i] })
}

func oneLimit(burst int) scenario {
	return scenario{name: "test", limits: []limit{{Name: "api", Rate: 10, Burst: burst}}}
}

func TestMostIsWhatAFullBucketAllows(t *testing.T) {
	for _, c := range []struct {
		limit  limit
		window time.Duration
		most   int
	}{
		{limit{Rate: 1, Burst: 1}, 12 * time.Second, 12},             // at 0, 1, … 11 s
		{limit{Rate: 1, Burst: 1}, 12*time.Second + 1, 13},           // and at 12 s
		{limit{Rate: 100, Burst: 10}, 12 * time.Second, 1209},        // 10 at once, then each 10 ms
		{limit{Rate: 5, Burst: 2}, 100 * time.Millisecond, 2},        // the burst
		{limit{Rate: 5, Burst: 2}, 200*time.Millisecond + 1, 3},      // and one more
		{limit{Rate: 0.5, Burst: 1}, 1999 * time.Millisecond, 1},     // the first
		{limit{Rate: 0.5, Burst: 3}, 2001 * time.Millisecond, 2 + 2}, // three and one more
	} {
		require.Equal(t, c.most, c.limit.most(c.window), "%+v", c)
	}
}

func TestOnlyTheWindowCounts(t *testing.T) {
	jobs := jobsOf("api", "api", "api", "api")
	r := newResult(jobs, time.Second, []call{
		{line: "api", task: "0", at: at(0), due: at(0)},
		{line: "api", task: "1", at: at(50), due: at(46), refused: true},
		{line: "api", task: "1", at: at(999), due: at(990)},
		{line: "api", task: "2", at: at(1000), due: at(1000)}, // the window is over
	}, nil, []note{
		{Kind: entered, Task: "0", At: at(-5)},
		{Kind: entered, Task: "1", At: at(40)},
		{Kind: entered, Task: "1", At: at(980)},
		{Kind: entered, Task: "2", At: at(10)}, // not done
		{Kind: entered, Task: "0", At: at(1001)},
	})
	f := figures(oneLimit(1), "someone", r)
	require.Len(t, f, 1)
	require.Equal(t, figure{
		Scenario: "test", Contender: "someone", Limit: "api", Tasks: 4, Done: 2, Seconds: 1,
		Utilization: 0.2, Refused: 1, EntriesPerTask: new(1.5), LatenessP50: new(0.0), LatenessP99: new(9.0),
	}, f[0])
}

func TestTheWindowEndsWhenAllIsDone(t *testing.T) {
	r := newResult(jobsOf("api", "api", "api"), time.Minute, []call{
		{line: "api", task: "0", at: at(0)},
		{line: "api", task: "2", at: at(100)},
		{line: "api", task: "1", at: at(200)},
	}, nil, nil)
	f := figures(oneLimit(1), "someone", r)[0]
	require.Equal(t, 1.0, f.Utilization)
	require.Equal(t, 0.2, f.Seconds)
}

func TestTheLastPromiseCounts(t *testing.T) {
	r := newResult(jobsOf("api", "api", "api"), time.Second, []call{
		{line: "api", task: "0", at: at(0), due: at(0)},
		{line: "api", task: "1", at: at(700), due: at(699), refused: true},
		{line: "api", task: "1", at: at(900), due: at(899)}, // a new attempt: nothing was promised to it
	}, nil, []note{
		{Kind: promised, Task: "1", At: at(300), Promise: at(310)}, // notes of two processes
		{Kind: promised, Task: "1", At: at(100), Promise: at(110)},
		{Kind: promised, Task: "0", At: at(500), Promise: at(510)}, // later than the call
	})
	require.Equal(t, []time.Time{at(0), at(310), at(899)}, []time.Time{r.calls[0].due, r.calls[1].due, r.calls[2].due})
}

func TestWorstAndMeanTenant(t *testing.T) {
	s := oneLimit(1)
	s.tenants = 2
	r := newResult(jobsOf("api/a", "api/a", "api/b", "api/b"), 200*time.Millisecond, []call{
		{line: "api/a", task: "0", at: at(0), due: at(0)},
		{line: "api/b", task: "2", at: at(10), due: at(2)},
		{line: "api/b", task: "3", at: at(20), due: at(20), refused: true},
		{line: "api/a", task: "1", at: at(150), due: at(148)},
	}, nil, []note{
		{Kind: entered, Task: "0", At: at(0)}, {Kind: entered, Task: "1", At: at(0)}, {Kind: entered, Task: "2", At: at(0)},
	})
	f := figures(s, "someone", r)
	require.Len(t, f, 2)
	require.Equal(t, figure{
		Scenario: "test", Contender: "someone", Limit: "worst", Tasks: 2, Done: 1, Seconds: 0.2,
		Utilization: 0.5, Refused: 1, EntriesPerTask: new(1.0), LatenessP50: new(8.0), LatenessP99: new(8.0),
	}, f[0])
	require.Equal(t, figure{
		Scenario: "test", Contender: "someone", Limit: "mean", Tasks: 2, Done: 1.5, Seconds: 0.2,
		Utilization: 0.75, Refused: 0.5, EntriesPerTask: new(1.0), LatenessP50: new(2.0), LatenessP99: new(8.0),
	}, f[1])
}

func TestBareCallsCountInTheWindowOnly(t *testing.T) {
	r := newResult(jobsOf("api", "api"), 100*time.Millisecond, []call{{line: "api", task: "0", at: at(10), due: at(8)}}, []call{
		{line: bareLine, at: at(9), due: at(1)},
		{line: bareLine, at: at(10), due: at(9)},
		{line: bareLine, at: at(50), due: at(47)},
		{line: bareLine, at: at(110), due: at(60)}, // the window is over
	}, nil)
	f := figures(oneLimit(1), "someone", r)[0]
	require.Equal(t, new(3.0), f.BareP99)
	require.Equal(t, new(2.0), f.LatenessP99)
}

func TestNoCallsHaveNoLateness(t *testing.T) {
	f := figures(oneLimit(1), "someone", newResult(jobsOf("api"), time.Second, nil, nil, nil))[0]
	require.Nil(t, f.LatenessP50)
	require.Nil(t, f.BareP99)
	require.Nil(t, f.EntriesPerTask)
	require.Zero(t, f.Utilization)
}
