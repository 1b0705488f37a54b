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
		require.NoError(t, l.Wait(t.Context()))
		limits[name] = l
	}
	s.known("calls", "gpt-5/tokens", "other")
	require.NoError(t, limits["calls"].Stop(t.Context(), time.Time{}, "no credit"))
	require.NotContains(t, s.does("why", "azure/other"), "stopped")
	require.Regexp(t, `(?s)^wrong  openai/prod/calls: .*\nNothing holds back calls of openai/prod/gpt-5/tokens\.\n$`, s.does("why", "openai/prod"))
	code, _, errs := s.command("", "resume", "openai/prod", "-y")
	require.Equal(t, exitUnknown, code)
	require.Contains(t, errs, `"openai/prod" is a group: name one of its limits (openai/prod/calls, openai/prod/gpt-5/tokens). Run:`+"\n  fleetpace resume openai/prod/calls\n")
	require.NotContains(t, errs, "resume openai/prod/gpt-5", "it is not stopped")
	require.NotContains(t, s.does("why", "openai/prod/calls"), "also need")
	require.Contains(t, s.does("why", "openai/prod/gpt-5/tokens"), "Nothing holds it back: a call would have its turn now. "+
		"Calls that also need openai/prod/calls fail: it is stopped.\nWhy: fleetpace why openai/prod/calls\n")
	require.NoError(t, limits["gpt-5/tokens"].Pause(t.Context(), time.Hour, ""))
	require.Contains(t, s.does("why", "openai/prod/gpt-5/tokens"), "\n  Calls that also need openai/prod/calls fail: it is stopped. Run: fleetpace why openai/prod/calls\n")
}

// A change of a group changes nothing, and names the commands that make it: for resume and reset, of the limits and keys
// where there is something to end.
func TestChangesOfAGroup(t *testing.T) {
	t.Parallel()
	s := newScene(t, redistest.Mini(t))
	for _, name := range []string{"calls", "it's"} {
		l, err := reserve.New(s.client, reserve.Config{Name: name, Group: "llm", Prefix: s.prefix, Limit: reserve.PerSecond(100)})
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		require.NoError(t, l.Wait(t.Context()))
		require.NoError(t, l.For("acme").Wait(t.Context()))
		if name == "calls" {
			require.NoError(t, l.For("-y").Wait(t.Context()))
		}
	}
	s.known("calls", "it's")
	says := func(want string, args ...string) {
		t.Helper()
		code, out, errs := s.command("", append(args, "-y")...)
		require.Equal(t, exitUnknown, code, out)
		require.True(t, strings.HasSuffix(errs, want+"\n"), "%q", errs)
	}
	says(". None of them is paused or stopped.", "resume", "llm")
	says(". None of them is overridden.", "reset", "llm")
	says(". Run:\n  fleetpace pause llm/calls --for 1h0m0s --reason 'it is red'\n  fleetpace pause 'llm/it'\\''s' --for 1h0m0s --reason 'it is red'",
		"pause", "llm", "--for", "1h", "--reason", "it is red")
	s.does("pause", "llm/it's", "acme", "-y")
	s.does("pause", "llm/calls/-y", "-y")
	s.does("stop", "llm/calls", "-y")
	s.does("set", "llm/calls", "acme", "--to", "4/s", "-y")
	named := func(limit string, keys int) {
		require.Eventually(t, func() bool { // the heartbeats name the keys
			var look struct{ Keys []any }
			return json.Unmarshal([]byte(s.does("show", limit, "-o", "json")), &look) == nil && len(look.Keys) == keys
		}, 20*time.Second, 20*time.Millisecond)
	}
	named("llm/it's", 2)
	named("llm/calls", 3)
	says(". Run:\n  fleetpace resume llm/calls\n  fleetpace resume llm/calls/-y\n  fleetpace resume 'llm/it'\\''s' acme", "resume", "llm")
	says(". Run:\n  fleetpace reset llm/calls acme", "reset", "llm")

	l, err := reserve.New(s.client, reserve.Config{Name: "busy", Group: "many", Prefix: s.prefix, Limit: reserve.PerSecond(100)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	for i := range keysOfGroup + 1 {
		require.NoError(t, l.For(fmt.Sprint(i)).Wait(t.Context()))
	}
	s.known("calls", "it's", "busy")
	named("many/busy", keysOfGroup+1)
	further := fmt.Sprintf("Of each limit, the %d keys with the most calls were looked at: name others, as in fleetpace resume many/busy KEY", keysOfGroup)
	says(". None of them is paused or stopped. "+further, "resume", "many")
	s.does("pause", "many/busy", "-y")
	says(". Run:\n  fleetpace resume many/busy\n"+further, "resume", "many")
}
