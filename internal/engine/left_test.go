package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// A place is left again if Redis had a plan of another kind, which the process did not know.
func TestAPlaceIsLeftUnderANewPlan(t *testing.T) {
	p := newPlay(t, AwayLocal)
	p.limit.Plans = true
	p.call(0, false)
	p.replyAll()
	waits := p.call(0, false)
	p.replyAll()
	p.Leave(p.now, waits)
	p.step()
	leave := p.take(Leave)
	require.NotNil(t, leave)

	client := redistest.Mini(t).Client(t)
	other := wire.NewLimit(wire.Terms{Kind: "p", A: 50_000, B: 1}, p.limit.Keys, p.limit.Name)
	other.Plans = true
	other.Plan(wire.Terms{Kind: "r", A: 3, B: 1_000_000}, 7)
	ask := wire.Call{Caller: wire.Caller{Process: "other", Serial: 1}, Client: client, Limits: []*wire.Limit{other}, Now: p.now}
	_, _, err := wire.Ask(t.Context(), &ask, []wire.Item{{Number: 1, Count: 1, Parts: []wire.Part{{Cost: 1}}}})
	require.NoError(t, err)

	now := func() time.Time { return p.now }
	for tries := 0; leave != nil; tries++ {
		require.Less(t, tries, 2, "the process knows the plan now")
		r, err := leave.Execute(t.Context(), client, now)
		require.NoError(t, err)
		refused := r.Reply.AnyProblem()
		p.Reply(p.now, leave, &r)
		p.done(leave)
		leave = p.take(Leave)
		require.Equal(t, refused != nil, leave != nil, "%v", refused)
		require.Equal(t, tries == 0, refused != nil, "%v", refused)
	}
}
