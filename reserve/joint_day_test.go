package reserve_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

// dayFleet is what a provider of a language model allows, and the fleet that has more to
// do than a day's quota.
type dayFleet struct {
	requests, tokens, day reserve.Limit
	processes, inFlight   int
	records               int

	mu    sync.Mutex
	next  int
	calls []dayCall
}

type dayCall struct {
	at     time.Time
	tokens int
}

// estimate and actual are the tokens of a record: what its caller takes, and what the
// answer says.
func (d *dayFleet) estimate(record int) int { return 55 + record*37%50 }
func (d *dayFleet) actual(record int) int   { return d.estimate(record) * (40 + record*53%41) / 100 }

// take returns the next record that nobody has; -1: none is left.
func (d *dayFleet) take() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.next == d.records {
		return -1
	}
	d.next++
	return d.next - 1
}

// work does records, one after the other, until none is left.
func (d *dayFleet) work(t *testing.T, j *reserve.Joint) {
	ctx := context.Background()
	for record := d.take(); record >= 0; record = d.take() {
		r, err := j.Reserve(ctx, 1, d.estimate(record), 1)
		if !assert.NoError(t, err) || !assert.NoError(t, r.Wait(ctx)) {
			return
		}
		d.mu.Lock()
		d.calls = append(d.calls, dayCall{time.Now(), d.actual(record)})
		d.mu.Unlock()
		time.Sleep(time.Duration(200+record*29%400) * time.Millisecond) // the answer takes its time
		if !assert.NoError(t, r.Settle(ctx, 1, d.actual(record), 1)) {
			return
		}
	}
}

// judge lets strict providers judge the calls, in the order in which they came, and returns
// how many each day had.
func (d *dayFleet) judge(t *testing.T) (days []int) {
	rules := []*provider.Provider{
		provider.New(provider.TokenBucket(d.requests.Rate()*1.0001, d.requests.MaxBurst())),
		provider.New(provider.TokenBucket(d.tokens.Rate()*1.0001, d.tokens.MaxBurst())),
		provider.New(provider.FixedWindow(d.day.MaxBurst(), 24*time.Hour)),
	}
	midnight := d.calls[0].at.Truncate(24 * time.Hour)
	for n, c := range d.calls {
		for i, cost := range []int{1, c.tokens, 1} {
			ok, _ := rules[i].JudgeAt(c.at, cost)
			assert.True(t, ok, "limit %d refuses call %d at %v", i, n, c.at)
		}
		day := int(c.at.Sub(midnight) / (24 * time.Hour))
		for len(days) <= day {
			days = append(days, 0)
		}
		days[day]++
	}
	return days
}

// Four processes have more records than two days' quota of calls, beside a limit of
// requests and one of tokens, whose cost is known from the answer only. Nobody is refused
// anything, each day's quota is used up, and the next one's as soon as it begins.
// FLEETPACE_LONG=1 makes days of 2,000 calls.
func TestJointForDays(t *testing.T) {
	quota := 300
	switch {
	case raceDetector:
		quota = 100
	case long:
		quota = 2000
	}
	d := &dayFleet{
		requests: reserve.PerMinute(500).Burst(5), tokens: reserve.PerMinute(30_000).Burst(1000),
		day:       reserve.Quota(quota, reserve.CalendarDay),
		processes: 4, inFlight: 3, records: quota * 9 / 4,
	}
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		time.Sleep(9*time.Hour + 17*time.Minute) // work begins in the morning
		var done sync.WaitGroup
		for range d.processes {
			j := joint(t, b.group(d.requests, d.tokens, d.day)...)
			for range d.inFlight {
				done.Go(func() { d.work(t, j) })
			}
		}
		done.Wait()
	})
	days := d.judge(t)
	t.Logf("calls of each day: %v, in %v of real time", days, time.Since(began))

	require.Equal(t, []int{quota, quota, d.records - 2*quota}, days, "every record is done")
	for day, calls := range days {
		first, last := d.calls[day*quota].at, d.calls[day*quota+calls-1].at
		tokens := 0
		for _, c := range d.calls[day*quota : day*quota+calls] {
			tokens += c.tokens
		}
		took := last.Sub(first).Seconds()
		t.Logf("day %d: %d calls from %v to %v: %.3f of the requests, %.3f of the tokens", day+1, calls,
			first.Format("15:04:05.000"), last.Format("15:04:05.000"),
			float64(calls-d.requests.MaxBurst())/d.requests.Rate()/took,
			float64(tokens-d.tokens.MaxBurst())/d.tokens.Rate()/took)
		if day > 0 {
			require.Less(t, first.Sub(first.Truncate(24*time.Hour)), 2*time.Second, "calls waited for midnight")
		}
	}
}
