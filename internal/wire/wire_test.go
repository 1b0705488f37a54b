package wire

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/fault"
	scripts "github.com/fleetpace/fleetpace/lua"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func paced() *Limit {
	return NewLimit(Terms{Kind: "p", A: 1000, B: 5}, []string{"s", "p", "l", "x"}, new(Name))
}

// brought is what a call says of a limit, so long after the start.
func brought(l *Limit, after time.Duration, lost time.Time) (known, version, reach, clock string) {
	var a args
	l.tell(&a, &Call{Caller: Caller{Lost: lost}, Now: start.Add(after)}, "")
	text := func(i int) string { return fmt.Sprint(a.all[i]) }
	return text(scripts.LimitKnown), text(scripts.LimitVersion), text(scripts.LimitReach), text(scripts.LimitClock)
}

func TestWhatIsRememberedGetsOld(t *testing.T) {
	l := paced()
	known, version, reach, clock := brought(l, 0, time.Time{})
	require.Equal(t, []string{"", "0", "", "0"}, []string{known, version, reach, clock}, "nothing is known at first")

	l.learn(&head{version: 7, reach: "5000", text: "~3 run p 2000 4"}, "", 1e6, &Call{Caller: Caller{Way: 100 * time.Microsecond}}, start)
	known, version, reach, clock = brought(l, 2*time.Millisecond, time.Time{})
	require.Equal(t, []string{"3 run p 2000 4", "7", "3000", "1002100"}, []string{known, version, reach, clock})
	a, b := l.InForce()
	require.Equal(t, []float64{2000, 4}, []float64{a, b})

	_, _, reach, _ = brought(l, 20*time.Millisecond, time.Time{})
	require.Equal(t, "-15000", reach)
	_, _, reach, _ = brought(l, 20*time.Millisecond, start.Add(time.Millisecond))
	require.Equal(t, "0", reach, "data was lost since: the bucket is empty")
}

func TestRepliesMayComeOutOfOrder(t *testing.T) {
	l := paced()
	l.learn(&head{version: 9, reach: "9", text: "3 run p 1000 5"}, "", 1e6, new(Call), start)
	l.learn(&head{version: 8, reach: "8"}, "3 run p 1000 5", 1e6, new(Call), start)
	_, version, reach, _ := brought(l, 0, time.Time{})
	require.Equal(t, []string{"9", "9"}, []string{version, reach}, "of one epoch the highest version counts")
	l.learn(&head{version: 1, reach: "1", text: "4 run p 1000 5"}, "", 1e6, new(Call), start)
	_, version, _, _ = brought(l, 0, time.Time{})
	require.Equal(t, "1", version, "another epoch begins anew")
}

// Redis moves a state by a step of its clock at the next use of the limit. A reply about a state that was only read shows
// the clock of after the step: a caller that took it for its last use would not report the step.
func TestReadingHidesNoStep(t *testing.T) {
	l := paced()
	l.learn(&head{version: 7, reach: "5000", text: "~3 run p 1000 5"}, "", 1e6, new(Call), start)
	l.learn(&head{version: 9, reach: "5000"}, "3 run p 1000 5", 60e6, &Call{reads: true}, start)
	_, version, _, clock := brought(l, time.Second, time.Time{})
	require.Equal(t, []string{"7", "2000000"}, []string{version, clock})

	l.learn(&head{version: 9, reach: "5000"}, "3 run p 1000 5", 3e6, &Call{reads: true}, start.Add(2*time.Second))
	_, version, _, clock = brought(l, 2*time.Second, time.Time{})
	require.Equal(t, []string{"9", "3000000"}, []string{version, clock}, "without a step it is remembered, for a loss of data")
}

func TestALimitNeverAskedHearsOfLostData(t *testing.T) {
	warming := NewLimit(Terms{Kind: "w", A: 1e6, B: 1e7}, []string{"s", "p", "l", "x"}, new(Name))
	for _, l := range []*Limit{paced(), warming} {
		known, _, reach, _ := brought(l, time.Second, start)
		require.Equal(t, []string{"1", "0"}, []string{known, reach}, l.Kind)
		known, _, _, _ = brought(l, time.Hour, start)
		require.Equal(t, "", known, "%s: no turns of then are out any more", l.Kind)
	}
}

func TestReachOfOtherKinds(t *testing.T) {
	for kind, want := range map[string]string{"w": "3000 0.5", "r": "5000 -2000", "q": "5000 0.5"} {
		l := NewLimit(Terms{Kind: kind, A: 10, B: 10}, nil, new(Name))
		said := "5000 0.5"
		if kind == "r" {
			said = "5000 0"
		}
		l.learn(&head{version: 1, reach: said, text: "3 run " + kind + " 10 10"}, "", 1e6, new(Call), start)
		_, _, reach, _ := brought(l, 2*time.Millisecond, time.Time{})
		require.Equal(t, want, reach, kind)
	}
}

func TestARunOfTurns(t *testing.T) {
	r := &reader{values: []any{int64(1), int64(1500)}}
	c := &Call{Limits: []*Limit{paced()}}
	c.begin(scripts.Ask)
	answers := r.answers(c, &Item{Count: 3, Parts: []Part{{Cost: 1}}})
	require.NoError(t, r.err)
	var waits, untils []time.Duration
	for k := range answers.Count {
		a := answers.At(k)
		waits, untils = append(waits, a.Wait/time.Microsecond), append(untils, a.Until/time.Microsecond)
	}
	require.Equal(t, []time.Duration{0, 500, 1500}, waits)
	require.Equal(t, []time.Duration{3500, 4500, 5500}, untils, "burst less cost intervals after it was due, not after it came")
}

func TestUnreadableReplies(t *testing.T) {
	for what, values := range map[string][]any{
		"too short":     {int64(0), int64(1), int64(1)},
		"no number":     {"x"},
		"too many":      {int64(0), int64(2)},
		"no answer":     {int64(0), int64(1), int64(9), int64(0), "", ""},
		"another type":  {nil},
		"tags cut off":  {int64(0), int64(1), int64(0), int64(5), int64(0)},
		"tags no words": {int64(0), int64(1), int64(0), int64(5), int64(0), "x"},
	} {
		r := &reader{values: values}
		r.answers(&Call{Limits: []*Limit{paced()}}, &Item{Count: 1, Parts: []Part{{Cost: 1}}})
		require.ErrorIs(t, r.err, fault.ErrCorrupt, what)
	}
}

func TestProblems(t *testing.T) {
	for text, means := range map[string]error{
		"BADARG cost: want a whole number above 0": fault.ErrInvalid,
		"EXCEEDS cost: want at most 3, got 5":      fault.ErrExceeds,
		"BADSTATE plain: want a text, got nothing": fault.ErrCorrupt,
		"another one": fault.ErrCorrupt,
	} {
		require.ErrorIs(t, problemOf(text), means)
	}
	require.ErrorIs(t, problemOf("EXCEEDS cost"), fault.ErrInvalid)
}
