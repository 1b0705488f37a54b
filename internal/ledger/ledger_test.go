package ledger

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fleetpace/fleetpace/internal/observe"
)

// Each fault of turns is seen.
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
