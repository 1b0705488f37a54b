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

	for run, want := range map[string]float64{"?": 0, "?" + is: 0, "?" + "a0a0a0a0a0a0": 2e6} {
		require.NoError(t, client.Del(t.Context(), keys...).Err())
		_, wait = ask(run)
		require.InDelta(t, want, wait, 1, "others may have used the limit if another server has replaced that of the caller: %q", run)
	}
}

// A caller that gives no time lets the script also ask, if a limit has no state, or that of another server.
func TestScriptsAskTheServerOfALimitWithoutState(t *testing.T) {
	client := redistest.Local(t).Client(t)
	keys := Keys(redistest.Prefix(t), "", "api", "p", "")
	info := client.Info(t.Context(), "server").Val()
	is := regexp.MustCompile(`run_id:(\w{12})`).FindStringSubmatch(info)[1]
	for run, given := range map[string]bool{"": true, is: true, "a0a0a0a0a0a0": false} {
		require.NoError(t, client.Del(t.Context(), keys...).Err())
		reply, err := Ask.Run(t.Context(), client, keys, "", 0, 0, 0, 300000, run, "p", 1, "", "p", second, 5, 0, "", 0, "", "", "", 0,
			1, 1, 2, 1, 1, 1, "").Slice()
		require.NoError(t, err)
		require.Equal(t, given, reply[7] == int64(1), "run ID %q: %v", run, reply)
		if run != "" {
			require.Equal(t, is, client.HGet(t.Context(), keys[0], "run").Val())
		}
	}
}
