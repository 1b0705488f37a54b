package lua

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// A caller that does not know whether another server has taken over lets the script ask: then that goes on a
// second later, behind all turns that it may not know, once.
func TestScriptsAskTheServer(t *testing.T) {
	client := redistest.Local(t).Client(t)
	keys := Keys(redistest.Prefix(t), "", "api", "p", "")
	s := serverOf(t.Context(), client, keys)
	limits := []queuemodel.Limit{{Kind: "p", A: second, B: 5}}
	at, number := float64(startMicros), 0
	ask := func(run string) (head queuemodel.Head, wait float64) {
		at, number = at+1000, number+1
		who := queuemodel.Caller{Now: at, Grace: 300000, Run: run, Process: "p", Serial: number}
		heads, answers, err := s.Ask(who, limits, []queuemodel.Item{{Count: 1, Number: number, Now: true, Parts: []queuemodel.Part{{Cost: 1}}}})
		require.NoError(t, err)
		return heads[0], answers[0].Wait
	}
	info := client.Info(t.Context(), "server").Val()
	is := regexp.MustCompile(`run_id:(\w{12})`).FindStringSubmatch(info)[1]

	_, wait := ask("before")
	require.Zero(t, wait)
	head, wait := ask("?")
	require.Contains(t, head.Text, " "+is+" ")
	require.InDelta(t, 2e6, wait, 1, "a second for the turns that are out, and one for the permit")
	for _, run := range []string{"?", is} {
		before := wait
		_, wait = ask(run)
		require.InDelta(t, before-1000, wait, 1, "it is the same server as before: %q", run)
	}
}
