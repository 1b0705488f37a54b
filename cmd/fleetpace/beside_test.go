package main

import (
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
	require.Regexp(t, `(?s)^stop  openai/prod/calls: .*\n1 of 2 limits are fine or idle\.\n$`, s.does("why", "openai/prod"))
	code, _, errs := s.command("", "resume", "openai/prod", "-y")
	require.Equal(t, exitUnknown, code)
	require.Contains(t, errs, `"openai/prod" is a group: name one of its limits (openai/prod/calls, openai/prod/gpt-5/tokens)`)
	require.NotContains(t, s.does("why", "openai/prod/calls"), "also need")
	require.Contains(t, s.does("why", "openai/prod/gpt-5/tokens"), "Nothing holds it back: a call would have its turn now. "+
		"Calls that also need openai/prod/calls fail: it is stopped.\nWhy: fleetpace why openai/prod/calls\n")
	require.NoError(t, limits["gpt-5/tokens"].Pause(t.Context(), time.Hour, ""))
	require.Contains(t, s.does("why", "openai/prod/gpt-5/tokens"), "\n  Calls that also need openai/prod/calls fail: it is stopped. Run: fleetpace why openai/prod/calls\n")
}
