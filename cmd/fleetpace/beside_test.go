package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// While an account is stopped, why says of a limit of the same group that calls which need both fail.
func TestWhyBesideAStop(t *testing.T) {
	t.Parallel()
	s := newScene(t, redistest.Mini(t))
	limits := map[string]*reserve.Limiter{}
	for name, group := range map[string]string{"calls": "openai/prod", "gpt-5/tokens": "openai/prod", "other": "azure"} {
		l, err := reserve.New(s.client, reserve.Config{Name: name, Group: group, Prefix: s.prefix, Limit: reserve.PerSecond(100).Burst(100)})
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		s.works(l)
		limits[name] = l
	}
	s.known("calls", "gpt-5/tokens", "other")
	require.NoError(t, limits["calls"].Stop(t.Context(), time.Time{}, "no credit"))
	require.NotContains(t, s.does("why", "azure/other"), "stopped")
	require.Regexp(t, `(?s)^wrong  openai/prod/calls: .*\nNothing holds back calls of openai/prod/gpt-5/tokens\.\n$`, s.does("why", "openai/prod"))
	require.NotContains(t, s.does("why", "openai/prod/calls"), "also need")
	require.Contains(t, s.does("why", "openai/prod/gpt-5/tokens"), "Nothing holds it back: a call would have its turn now. "+
		"Calls that also need openai/prod/calls fail: it is stopped.\nWhy: fleetpace why openai/prod/calls\n")
	require.NoError(t, limits["gpt-5/tokens"].Pause(t.Context(), time.Hour, ""))
	require.Contains(t, s.does("why", "openai/prod/gpt-5/tokens"), "\n  Calls that also need openai/prod/calls fail: it is stopped. Run: fleetpace why openai/prod/calls\n")
}

// What ends something may be made of a group: of the limits and keys where there is something to end. Another change of a
// group changes nothing, and names the commands that make it.
func TestChangesOfAGroup(t *testing.T) {
	t.Parallel()
	s := newScene(t, redistest.Mini(t))
	limiter := func(group, name string) *reserve.Limiter {
		l, err := reserve.New(s.client, reserve.Config{Name: name, Group: group, Prefix: s.prefix, Limit: reserve.PerSecond(100)})
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		require.NoError(t, l.Wait(t.Context()))
		return l
	}
	for _, name := range []string{"calls", "it's"} {
		l := limiter("llm", name)
		require.NoError(t, l.For("acme").Wait(t.Context()))
		if name == "calls" {
			require.NoError(t, l.For("-y").Wait(t.Context()))
		}
	}
	s.known("calls", "it's")
	says := func(want string, exit int, args ...string) {
		t.Helper()
		code, out, errs := s.command("", append(args, "-y")...)
		require.Equal(t, exit, code, "%s%s", out, errs)
		require.Equal(t, want, out+errs)
	}
	none := "No limit of llm is paused or stopped.\n"
	says(none, exitOK, "resume", "llm")
	says("No limit of llm for the key acme is paused or stopped.\n", exitOK, "resume", "llm", "acme")
	says("No limit of llm is overridden.\n", exitOK, "reset", "llm")
	require.Equal(t, "[]\n", s.does("resume", "llm", "-o", "json"))
	says("fleetpace: no such limit: \"llm\" is a group: name one of its limits (llm/calls, llm/it's). Run:\n"+
		"  fleetpace pause llm/calls --for 1h0m0s --reason 'it is red'\n  fleetpace pause 'llm/it'\\''s' --for 1h0m0s --reason 'it is red'\n",
		exitUnknown, "pause", "llm", "--for", "1h", "--reason", "it is red")
	code, _, errs := s.command("", "resume", "lmm", "-y")
	require.Equal(t, exitUnknown, code)
	require.Contains(t, errs, "no such limit: \"lmm\" (in the Redis at ")
	require.Contains(t, errs, " there are: llm/calls, llm/it's; ")
	says("fleetpace: --limit: llm is a group, and its limits differ: name one of them\n", exitUsage, "resume", "llm", "--limit", "1/s")

	named := func(limit string, keys int) {
		require.Eventually(t, func() bool { // the heartbeats name the keys
			var look struct{ Keys []any }
			return json.Unmarshal([]byte(s.does("show", limit, "-o", "json")), &look) == nil && len(look.Keys) == keys
		}, 20*time.Second, 20*time.Millisecond)
	}
	named("llm/it's", 2)
	named("llm/calls", 3)
	s.does("pause", "llm/it's", "acme", "-y")
	s.does("pause", "llm/calls/-y", "-y")
	s.does("stop", "llm/calls", "-y")
	s.does("set", "llm/calls", "acme", "--to", "4/s", "-y")
	code, out, errs := s.command("", "resume", "llm")
	require.Equal(t, exitRefused, code, out)
	require.Contains(t, errs, "This will end the stop of llm/calls, and end the pause of llm/calls/-y, and end the pause of llm/it's/acme.\nContinue? [y/N] ")
	says("done: end the pause of llm/it's/acme\n", exitOK, "resume", "llm", "acme")
	s.does("pause", "llm/it's", "-y")
	says("done: end the stop of llm/calls\ndone: end the pause of llm/calls/-y\ndone: end the pause of llm/it's\n", exitOK, "resume", "llm/")
	says(none, exitOK, "resume", "llm")
	require.Regexp(t, `(?s)^\[\s*\{\s*"done": "remove the override of llm/calls/acme: [^"]*",\s*"key": "acme",\s*"limit": "llm/calls"\s*\}\s*\]\n$`,
		s.does("reset", "llm", "-y", "-o", "json"))

	busy := limiter("many", "busy")
	for i := range keysOfGroup + 1 {
		require.NoError(t, busy.For(fmt.Sprint(i)).Wait(t.Context()))
	}
	s.shows("many/busy") // The processes of the other limits, idle meanwhile, may beat no longer.
	named("many/busy", keysOfGroup+1+1)
	further := fmt.Sprintf("Of many/busy, the %d keys with the most calls were looked at: name others, as in fleetpace resume many/busy KEY\n", keysOfGroup)
	says("No limit of many is paused or stopped.\n"+further, exitOK, "resume", "many")
	s.does("pause", "many/busy", "-y")
	says("done: end the pause of many/busy\n"+further, exitOK, "resume", "many")
}

// A group and a limit may have the same name.
func TestResumeOfALimitOrAGroup(t *testing.T) {
	t.Parallel()
	s := newScene(t, redistest.Mini(t))
	for _, n := range [][2]string{{"", "api"}, {"api", "tokens"}, {"other", "short"}, {"short", "calls"}, {"api/prod", "calls"}} {
		l, err := reserve.New(s.client, reserve.Config{Name: n[1], Group: n[0], Prefix: s.prefix, Limit: reserve.PerSecond(100)})
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		require.NoError(t, l.Wait(t.Context()))
		require.NoError(t, l.Pause(t.Context(), time.Hour, ""))
	}
	s.known("api", "api/tokens", "other/short", "short/calls", "api/prod/calls")
	require.Equal(t, "done: end the pause of api. There is also a group api, whose limits stay as they are: for them, run fleetpace resume api/\n", s.does("resume", "api", "-y"))
	require.Equal(t, "done: end the pause of api/tokens\n", s.does("resume", "api/", "-y"))
	for arg, limits := range map[string][2]string{"short": {"other/short", "other/short"}, "api/prod": {"api/prod", "api prod"}} {
		code, out, errs := s.command("", "resume", arg, "-y")
		require.Equal(t, exitUsage, code, out)
		require.Contains(t, errs, fmt.Sprintf("%q may be %s or a group. For the limit, run: fleetpace resume %s. For the group, run: fleetpace resume %s/\n", arg, limits[0], limits[1], arg))
	}
	require.Equal(t, "done: end the pause of short/calls\n", s.does("resume", "short/", "-y"))
	require.Equal(t, "done: end the pause of api/prod/calls\n", s.does("resume", "api/prod/", "-y"))
	require.Contains(t, s.does("resume", "other/short", "-y"), "done: end the pause of other/short\n")
}

// The commands that the error and the answer of why name end a stop of several limits as a whole.
func TestResumeOfAStopOfSeveralLimits(t *testing.T) {
	t.Parallel()
	s := newScene(t, redistest.Mini(t))
	calls := map[string][]*reserve.Limiter{}
	for _, name := range []string{"requests", "tokens"} {
		l, err := reserve.New(s.client, reserve.Config{Name: name, Group: "api", Prefix: s.prefix, Limit: reserve.PerSecond(100).Burst(100)})
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		require.NoError(t, l.Wait(t.Context()))
		calls["api"], calls["api acme"] = append(calls["api"], l), append(calls["api acme"], l.For("acme"))
	}
	s.known("requests", "tokens")
	for of, limits := range calls {
		both, err := reserve.All(limits...)
		require.NoError(t, err)
		require.NoError(t, both.Wait(t.Context()))
		require.NoError(t, both.Stop(t.Context(), time.Time{}, "no credit"))
		err = both.Wait(t.Context())
		require.ErrorIs(t, err, reserve.ErrExhausted)
		_, command, _ := strings.Cut(err.Error(), "this ends the stop: ")
		require.Equal(t, "fleetpace resume "+of, command)
		for _, l := range limits {
			require.Contains(t, s.does("why", "api/"+l.String()), ": "+command+"\n")
		}
		_, _, errs := s.command("", "resume", "api/"+limits[0].String())
		require.Contains(t, errs, ". Further limits were stopped with it: to end the whole stop, run "+command+".")
		out := s.does(append(strings.Fields(command)[1:], "-y")...)
		require.Equal(t, 2, strings.Count(out, "done: end the stop of api/"), out)
		require.NoError(t, both.Wait(t.Context()))
	}
}
