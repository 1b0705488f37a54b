package integration

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fleetpace/fleetpace/internal/provider"
)

// faultVerdict is what must hold in a fault. All of it besides: no turn and no
// call is lost, every caller calls again, every worker ends when it is told to,
// and from 2 s after the fault on the limit is used.
type faultVerdict struct {
	// refused is the tolerance: how many calls the provider may refuse. Where
	// it is not 0, the scene says why; it is never more than one permit per
	// process that the event left alive.
	refused int
	// away, when set, says how long after the begin of the fault the workers know
	// that Redis is away. From then on they go on by themselves, at the part of
	// the rate that is called safe.
	away time.Duration
	// extra is the part of the rate that a worker uses on top, since the others
	// cannot know that it lives. It widens the limit by which the fault is judged.
	extra float64
	// unlimited is a fault in which the workers were told to do without the limit:
	// it is not judged, until 2 s after it.
	unlimited bool
}

const (
	safety    = 0.9  // the part of the rate that all workers together use without Redis
	recovered = 0.97 // the part of the rate that counts as all of it
	settle    = 2 * time.Second
)

// faultFigures is the line that a fault logs.
type faultFigures struct {
	Fault       string         `json:"fault"`
	Policy      string         `json:"policy"`
	Seconds     float64        `json:"fault_s"`
	Calls       int            `json:"calls"`
	Refused     int            `json:"refused"`
	RefusedAt   []float64      `json:"refused_s,omitempty"` // after the begin of the fault
	Strictly    *int           `json:"refused_without_extra,omitempty"`
	Lost        int            `json:"lost"`
	Failed      int            `json:"failed,omitempty"`
	Utilization float64        `json:"utilization"`
	Recovered   int64          `json:"recovered_ms"`                // -1: never
	During      *float64       `json:"rate_during_fault,omitempty"` // where it lasts
	Worst       int            `json:"worst_100ms"`
	Idle        []int          `json:"callers_idle_since,omitempty"` // per worker
	Stall       int64          `json:"machine_stall_ms"`             // the longest; the provider bears 90 ms
	Errors      map[string]int `json:"errors,omitempty"`
	Logs        map[string]int `json:"logs,omitempty"`
}

// sum turns what was seen into figures.
func (s *faultScene) sum(must faultVerdict, reports faultReport) faultFigures {
	// Until then a worker may still be busy with its start, and its calls late.
	all, steady := s.history(), s.start.Add(200*time.Millisecond)
	calls := between(all, steady, s.end)
	f := faultFigures{
		Fault: s.name, Policy: s.job.Policy, Seconds: round(s.mended.Sub(s.broken).Seconds()),
		Calls: len(calls), Lost: reports.Lost, Failed: reports.Failed,
		Utilization: round(rateBetween(calls, s.mended.Add(settle), s.end) / faultRate),
		Recovered:   recoveredAfter(calls, s.mended, s.end),
		Worst:       judged(calls, 0).WorstWindow(100 * time.Millisecond),
		Idle:        s.idle(calls), Stall: s.stall().Milliseconds(),
		Errors: most(reports.Errors, 3), Logs: most(reports.Logs, 3),
	}
	if s.mended.Sub(s.broken) >= time.Second {
		during := round(rateBetween(calls, s.broken.Add(must.away), s.mended))
		f.During = &during
	}
	refused := refusals(all, faultRate)
	if must.unlimited || must.extra > 0 {
		strictly := len(refused)
		f.Strictly = &strictly
		// What is before the fault and what is clearly after it is judged strictly.
		before, after := between(all, time.Time{}, s.broken), between(all, s.mended.Add(settle), s.end)
		refused = append(refusals(before, faultRate), refusals(after, faultRate)...)
	}
	if must.unlimited { // what comes before is no sign of the limit
		f.Recovered = recoveredAfter(calls, s.mended.Add(settle), s.end)
		if f.Recovered >= 0 {
			f.Recovered += settle.Milliseconds()
		}
	}
	if must.extra > 0 {
		refused = append(refused, refusals(all, faultRate*(1+must.extra))...)
	}
	refused = slices.DeleteFunc(refused, func(at time.Time) bool { return at.Before(steady) })
	f.Refused = len(refused)
	for _, at := range refused[:min(len(refused), 20)] {
		f.RefusedAt = append(f.RefusedAt, round(at.Sub(s.broken).Seconds()))
	}
	return f
}

func (f faultFigures) log(s *faultScene) {
	s.Helper()
	text, err := json.Marshal(f)
	assert.NoError(s, err)
	s.Logf("FAULT %s", text)
}

func (s *faultScene) judge(must faultVerdict, f faultFigures) {
	s.Helper()
	assert.LessOrEqual(s, f.Refused, must.refused, "calls that the provider refuses")
	assert.Zero(s, f.Lost, "turns and calls that are lost")
	assert.GreaterOrEqual(s, f.Utilization, recovered, "of the rate is used from 2 s after the fault on")
	assert.GreaterOrEqual(s, f.Recovered, int64(0), "the rate is reached again")
	assert.Empty(s, f.Idle, "callers that never called after the fault, of each worker")
	if must.away > 0 {
		// Each worker may be one call off in each second.
		assert.InDelta(s, safety*faultRate, *f.During, faultWorkers, "calls per second while Redis is away")
	}
}

// idle is how many callers of each worker made no call after the fault; nil when
// there are none.
func (s *faultScene) idle(calls []faultCall) []int {
	idle, any := make([]int, len(s.workers)), false
	for i, w := range s.workers {
		if w.killed {
			continue
		}
		called := map[int]bool{}
		for _, c := range calls {
			if c.worker == i && c.At.After(s.mended) {
				called[c.caller] = true
			}
		}
		idle[i] = s.job.Calls - len(called)
		any = any || idle[i] > 0
	}
	if !any {
		return nil
	}
	return idle
}

func between(calls []faultCall, from, to time.Time) []faultCall {
	var found []faultCall
	for _, c := range calls {
		if !c.At.Before(from) && c.At.Before(to) {
			found = append(found, c)
		}
	}
	return found
}

// rateBetween is in calls per second.
func rateBetween(calls []faultCall, from, to time.Time) float64 {
	if !to.After(from) {
		return 0
	}
	return float64(len(between(calls, from, to))) / to.Sub(from).Seconds()
}

// recoveredAfter is how many milliseconds after a moment the first second begins
// that holds the rate, or -1. Such a second begins at that moment or with a call.
func recoveredAfter(calls []faultCall, mended, end time.Time) int64 {
	starts := []time.Time{mended}
	for _, c := range calls {
		if c.At.After(mended) {
			starts = append(starts, c.At)
		}
	}
	for _, from := range starts {
		to := from.Add(time.Second)
		if !to.After(end) && float64(len(between(calls, from, to))) >= recovered*faultRate {
			return from.Sub(mended).Milliseconds()
		}
	}
	return -1
}

// judged plays calls to a provider; without a rate, to one that only counts.
func judged(calls []faultCall, perSecond float64) *provider.Provider {
	var rules []provider.Rule
	if perSecond > 0 {
		rules = append(rules, provider.TokenBucket(perSecond, faultBurst))
	}
	p := provider.New(rules...)
	for _, c := range calls {
		p.JudgeAt(c.At, 1)
	}
	return p
}

// refusals are the moments of the calls that a limit of that rate refuses.
func refusals(calls []faultCall, perSecond float64) (at []time.Time) {
	for _, c := range judged(calls, perSecond).History() {
		if c.Refused {
			at = append(at, c.At)
		}
	}
	return at
}

// most are the n entries that were seen most often.
func most(seen map[string]int, n int) map[string]int {
	texts := slices.SortedFunc(maps.Keys(seen), func(a, b string) int {
		return cmp.Or(cmp.Compare(seen[b], seen[a]), cmp.Compare(a, b))
	})
	top := map[string]int{}
	for _, text := range texts[:min(n, len(texts))] {
		top[text] = seen[text]
	}
	return top
}

func round(v float64) float64 { return float64(int64(v*1000+0.5)) / 1000 }
