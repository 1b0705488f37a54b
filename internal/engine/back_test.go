package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// Turns of asks that have failed for good go back at the limits at which none of them was used. An ask of which no turn
// was used at one limit may have turns in use at another one.
func TestTurnsOfFailedAsksGoBackAtTheirLimit(t *testing.T) {
	p := newPlay(t, AwayWait)
	other := wire.NewLimit(wire.Terms{Kind: "p", A: 50_000, B: 1}, []string{"o", "o1", "o2", "o3", "o4", "o5"}, p.limit.Name)
	one := &line{engine: p.Engine, need: Need{Part: Part{p.limit, 1}}, parts: []Part{{p.limit, 1}}}
	both := &line{engine: p.Engine, need: Need{Part: Part{p.limit, 1}, More: []Part{{other, 1}}}, parts: []Part{{p.limit, 1}, {other, 1}}}

	b := p.batch(Ask)
	p.busy++
	b.caller = wire.Caller{Process: "me", Serial: 9}
	b.add(one, wire.Item{Count: 1, Number: 1}, &place{number: 1, tags: []int64{1}, back: "me 5"}) // its turn expired
	b.add(both, wire.Item{Count: 1, Number: 2}, nil)
	both.asked = 1
	require.Equal(t, []string{"me 5", ""}, b.back)
	p.fail(b, errAway, time.Unix(1_000_000, 0))

	next := p.batch(Ask)
	next.add(both, wire.Item{Count: 1, Number: 3}, nil)
	require.Equal(t, []string{"me 5;me 9", "me 9"}, next.back)
}
