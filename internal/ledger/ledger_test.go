package ledger

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fleetpace/fleetpace/internal/observe"
)

// Each fault of turns is found.
func TestFaultsAreFound(t *testing.T) {
	start := time.UnixMicro(1_700_000_000_000_000)
	kept := func() (turns []Turn) {
		for i := range int64(1000) {
			at := start.Add(time.Duration(i) * 10 * time.Millisecond)
			turns = append(turns, Turn{Process: "one", Turn: observe.Turn{
				Limit: "api", Cost: 1, Late: 2 * time.Millisecond, Slack: 20 * time.Millisecond,
				Given: at.Add(5 * time.Millisecond), Told: at.Add(-time.Second), Turn: at,
			}})
		}
		return turns
	}
	limit := Limit{Rate: 100, Burst: 1, Share: 0.2}
	assert.Empty(t, limit.Faults(kept()))
	for name, spoil := range map[string]func([]Turn) []Turn{
		"a permit that is given twice": func(turns []Turn) []Turn { return slices.Insert(turns, 500, turns[500]) },
		"a permit that two processes are given": func(turns []Turn) []Turn {
			more := turns[500]
			more.Process, more.Turn.Turn = "two", more.Turn.Turn.Add(time.Millisecond)
			return slices.Insert(turns, 501, more)
		},
		"two turns for the permits of one": func(turns []Turn) []Turn {
			turns[500].Cost = 2
			return turns
		},
		"a permit that is given twice, and was not used another time": func(turns []Turn) []Turn {
			other := turns[400]
			other.Unused = true
			return inOrder(append(slices.Insert(turns, 500, turns[500]), other))
		},
		"a turn that is overslept": func(turns []Turn) []Turn {
			turns[500].Late = turns[500].Slack + 1
			return turns
		},
		"a turn before its moment": func(turns []Turn) []Turn {
			turns[500].Late = -1
			return turns
		},
		"a clock that is ahead": func(turns []Turn) []Turn {
			turns[500].Given = turns[500].Turn.Turn.Add(-drift - 1)
			return turns
		},
		"a clock that is far ahead, as the process can not know better": func(turns []Turn) []Turn {
			turns[500].Given, turns[500].Early = turns[500].Turn.Turn.Add(-mostEarly-1), time.Second
			return turns
		},
		"a turn of its own that is overslept": func(turns []Turn) []Turn {
			return append(turns, Turn{Process: "one", Turn: observe.Turn{Cost: 1, Given: turns[999].Given, Late: 2, Slack: 1}})
		},
		"more than its share": func(turns []Turn) []Turn {
			for range 3 {
				turns = append(turns, Turn{Process: "one", Turn: observe.Turn{Cost: 1, Given: turns[999].Given}})
			}
			return turns
		},
	} {
		assert.NotEmpty(t, limit.Faults(spoil(kept())), name)
	}
}

// A turn that was given up unused does not count: its permits may be granted again.
func TestUnusedTurnsAreStruckOut(t *testing.T) {
	start := time.UnixMicro(1_700_000_000_000_000)
	at := func(d time.Duration, unused bool) Turn {
		return Turn{Turn: observe.Turn{Limit: "api", Cost: 1, Given: start.Add(d), Turn: start.Add(d), Slack: time.Second, Unused: unused}}
	}
	limit := Limit{Rate: 10, Burst: 1}
	lapsed, next := at(0, false), at(30*time.Millisecond, false)
	assert.NotEmpty(t, limit.Faults(inOrder([]Turn{lapsed, next})))
	assert.Equal(t, []Turn{next}, inOrder([]Turn{lapsed, at(0, true), next}))
	assert.Equal(t, []Turn{lapsed}, inOrder([]Turn{lapsed, at(0, true), lapsed}), "one of two")
}

// A process without Redis grants its turns in time, and a stall delays some of its calls.
func TestOwnTurnsThatAreHeldUp(t *testing.T) {
	start := time.UnixMicro(1_700_000_000_000_000)
	own := func(due, late time.Duration) Turn {
		return Turn{Turn: observe.Turn{Cost: 1, Given: start.Add(due + late), Late: late, Slack: 100 * time.Millisecond}}
	}
	limit := Limit{Rate: 10, Burst: 1, Share: 1}
	assert.Empty(t, limit.Faults(inOrder([]Turn{own(0, 0), own(100*time.Millisecond, 90*time.Millisecond),
		own(200*time.Millisecond, 80*time.Millisecond), own(300*time.Millisecond, 0)})))
	overtaken := []Turn{own(100*time.Millisecond, 90*time.Millisecond), own(180*time.Millisecond, 0)}
	assert.Empty(t, limit.Faults(inOrder(slices.Clone(overtaken))))
	slices.Reverse(overtaken)
	assert.Empty(t, limit.Faults(inOrder(overtaken)), "the order in which they were told does not count")
	fast, faster := own(0, 0), own(50*time.Millisecond, 0)
	fast.Pace, faster.Pace = 5, 20
	assert.Empty(t, limit.Faults([]Turn{own(0, 0), own(100*time.Millisecond, 0), fast}), "as much as it knows to be its share")
	assert.NotEmpty(t, limit.Faults([]Turn{faster}))
	assert.NotEmpty(t, limit.Faults([]Turn{fast, fast, fast}))
	assert.NotEmpty(t, limit.Faults(inOrder([]Turn{own(0, 0), own(100*time.Millisecond, 0), own(120*time.Millisecond, 0), own(140*time.Millisecond, 0)})))
}
