package integration

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fleetpace/fleetpace/internal/ledger"
	"github.com/fleetpace/fleetpace/internal/provider"
)

// faultVerdict says how the turns of a fault are judged, in addition to what holds in all faults: see
// judge.
type faultVerdict struct {
	// lossy: Redis may forget the last turns before the fault. Workers report only the state of
	// the meter that they know. So until turns from before the fault have passed, the limit is
	// judged only over the whole time of the fault.
	lossy bool
	// extra is the additional fraction of the rate that a worker uses, because the others
	// cannot know that it runs.
	extra float64
	// unlimited: the workers' policy is to call without the limit, so their turns without Redis
	// are not judged.
	unlimited bool
	// obedient: the workers' policy is to make no calls without Redis.
	obedient bool
	// clock: Redis's clock steps, so turns from before and after the fault cannot be compared.
	clock bool
}

const (
	safety    = 0.9  // the part of the rate that all workers together use without Redis
	recovered = 0.97 // the part of the rate that counts as all of it

	// calm is how long after a fault the fleet may use less of the rate.
	calm = 2 * time.Second
)

// faultFigures are the figures that a fault logs.
type faultFigures struct {
	Fault       string         `json:"fault"`
	Policy      string         `json:"policy"`
	Seconds     float64        `json:"fault_s"`
	Calls       int            `json:"calls"`
	Turns       int            `json:"turns"`
	Alone       int            `json:"turns_without_redis,omitempty"`
	Faults      int            `json:"turns_too_many,omitempty"` // including turns that a lossy fault allows
	Refused     int            `json:"refused"`                  // as the calls arrived
	AsGiven     int            `json:"refused_as_given"`         // as the turns were granted
	Lost        int            `json:"lost"`
	Failed      int            `json:"failed,omitempty"`
	Utilization float64        `json:"utilization"`
	Recovered   int64          `json:"recovered_ms"`                // -1: never
	During      *float64       `json:"rate_during_fault,omitempty"` // if the fault lasts
	Worst       int            `json:"worst_100ms"`
	Idle        []int          `json:"callers_idle_since,omitempty"` // per worker
	Longest     int64          `json:"bare_longest_ms"`              // the longest delay of a goroutine that only sleeps
	Share       float64        `json:"bare_late_share"`
	Errors      map[string]int `json:"errors,omitempty"`
	Logs        map[string]int `json:"logs,omitempty"`
}

// limit is the limit of the scene.
func (s *faultScene) limit() ledger.Limit {
	return ledger.Limit{Rate: faultRate, Burst: 1, Share: safety / faultWorkers}
}

// sum computes the figures.
func (s *faultScene) sum(reports faultReport, turns []ledger.Turn) faultFigures {
	all := s.history()
	calls := between(all, s.start, s.end)
	longest, share := s.bare.suffered()
	f := faultFigures{
		Fault: s.name, Policy: s.job.Policy, Seconds: round(s.mended.Sub(s.broken).Seconds()),
		Calls: len(calls), Turns: len(turns), Lost: reports.Lost, Failed: reports.Failed,
		Faults: len(s.limit().Faults(turns)), Refused: len(refusals(all, faultRate)), AsGiven: s.limit().RefusedAsGiven(turns),
		Utilization: round(rateBetween(calls, s.mended.Add(calm), s.end) / faultRate),
		Recovered:   recoveredAfter(calls, s.mended, s.end),
		Worst:       judged(calls, 0).WorstWindow(100 * time.Millisecond),
		Idle:        s.idle(calls), Longest: longest.Milliseconds(), Share: round(share),
		Errors: most(reports.Errors, 3), Logs: most(reports.Logs, 3),
	}
	for _, turn := range turns {
		if turn.Alone() {
			f.Alone++
		}
	}
	if s.mended.Sub(s.broken) >= time.Second {
		during := round(rateBetween(calls, s.broken, s.mended))
		f.During = &during
	}
	return f
}

func (f faultFigures) log(s *faultScene) {
	s.Helper()
	text, err := json.Marshal(f)
	assert.NoError(s, err)
	s.Logf("FAULT %s", text)
}

// judge checks what must hold also on a machine that stalls. How much of the limit is used is a
// figure, and not judged: a process that is stopped loses turns.
func (s *faultScene) judge(must faultVerdict, f faultFigures, turns []ledger.Turn) {
	s.Helper()
	assert.Zero(s, f.Lost, "turns and calls that are lost")
	assert.Empty(s, f.Idle, "callers that never called after the fault, of each worker")

	limit := s.limit()
	switch {
	case must.unlimited:
		turns = slices.DeleteFunc(turns, ledger.Turn.Alone)
	case must.obedient:
		limit.Share = 0
	}
	var never, before, after time.Time
	before, after = s.broken, s.mended.Add(settle)
	switch far := s.end.Add(time.Hour); {
	case must.clock:
		limit.OwnClock = true
		given := func(from, to time.Time) (found []ledger.Turn) {
			return slices.DeleteFunc(slices.Clone(turns), func(turn ledger.Turn) bool {
				return turn.Given.Before(from) || !turn.Given.Before(to)
			})
		}
		keep(s, limit, given(never, before))
		keep(s, limit, given(after, far))
		return
	case must.lossy:
		keep(s, limit, ledger.During(turns, never, before))
		keep(s, limit, ledger.During(turns, after, far))
	default:
		keep(s, limit, turns)
	}
	// All turns together keep the limit, too: before and after a loss of data, with Redis and
	// without. A process that was suspended during a change may differ from the others for a
	// second.
	all := provider.New(provider.TokenBucket(faultRate*ledger.Rounding*(1+must.extra), 1+int(faultRate*ahead.Seconds())))
	for _, turn := range turns {
		ok, wait := all.JudgeAt(turn.Moment(), 1)
		assert.True(s, ok, "all together come %v before the limit allows it: %+v", wait, turn)
	}
}

// idle is how many callers of each worker made no call after the fault. It is nil if every caller
// made one.
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

// rateBetween is a rate in calls per second.
func rateBetween(calls []faultCall, from, to time.Time) float64 {
	if !to.After(from) {
		return 0
	}
	return float64(len(between(calls, from, to))) / to.Sub(from).Seconds()
}

// recoveredAfter returns how many milliseconds after a moment the first second with the full rate
// begins, or -1. Such a second begins at that moment or with a call.
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

// judged replays calls to a provider. Without a rate, the provider only counts them.
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

// refusals returns the moments of calls that a limit of this rate refuses.
func refusals(calls []faultCall, perSecond float64) (at []time.Time) {
	for _, c := range judged(calls, perSecond).History() {
		if c.Refused {
			at = append(at, c.At)
		}
	}
	return at
}

// most returns the n most frequent entries.
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
