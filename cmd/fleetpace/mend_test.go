package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// The command that why names mends what is wrong, also for a key.
func TestTheCommandOfWhyMends(t *testing.T) {
	t.Parallel()
	s := newScene(t, redistest.Mini(t))
	l := s.limiter("openai", "10/s")
	slots := s.limiter("gpu", "1 at once")
	require.NoError(t, l.For("acme").Wait(t.Context()))
	_, err := slots.Acquire(t.Context(), 1)
	require.NoError(t, err)
	s.known("openai", "gpu")
	mends := func(reason string, why ...string) {
		t.Helper()
		var answer struct{ Reason, Do, Command string }
		require.NoError(t, json.Unmarshal([]byte(s.does(append(why, "-o", "json")...)), &answer))
		require.Equal(t, reason, answer.Reason)
		require.Contains(t, s.does(why...), answer.Do+" "+answer.Command)
		words := strings.Fields(strings.ReplaceAll(answer.Command, "'", ""))
		require.Equal(t, "fleetpace", words[0])
		s.does(append(words[1:], "-y")...)
		require.NotContains(t, s.does(why...), answer.Command, "it is mended")
	}
	s.does("pause", "openai", "acme", "-y")
	mends("paused", "why", "openai", "acme")
	s.does("set", "openai", "acme", "--to", "1/hour", "-y")
	s.wait(l.For("acme"), 2)
	require.Eventually(t, func() bool { // the first call may find a permit
		st, err := l.For("acme").State(t.Context())
		return err == nil && st.Waiting > 0
	}, 20*time.Second, 20*time.Millisecond)
	mends("set", "why", "openai", "acme")
	mends("slots", "why", "gpu")
}

// More of a quota, which why proposes, ends with its window, whenever the command is typed.
func TestMoreOfAQuotaEndsWithItsWindow(t *testing.T) {
	t.Parallel()
	s := newScene(t, redistest.Mini(t))
	l := s.limiter("quota", "2/month quota")
	for range 2 {
		require.NoError(t, l.Wait(t.Context()))
	}
	s.wait(l, 1)
	s.known("quota")
	var answer struct{ Reason, Command string }
	require.Eventually(t, func() bool {
		return json.Unmarshal([]byte(s.does("why", "quota", "-o", "json")), &answer) == nil && answer.Reason == "used_up"
	}, 20*time.Second, 20*time.Millisecond)
	_, ends := l.Limit().Window(time.Now())
	words := strings.Fields(strings.ReplaceAll(answer.Command, "'", ""))
	require.Equal(t, ends.UTC().Format(time.RFC3339), words[len(words)-1], answer.Command)
	require.Equal(t, "--until", words[len(words)-2], answer.Command)
	i := strings.Index(answer.Command, "'")
	require.Positive(t, i, answer.Command)
	most := time.Until(ends)
	s.does("set", "quota", "--to", strings.Split(answer.Command[i+1:], "'")[0], "--until", words[len(words)-1], "-y")
	st, err := l.State(t.Context())
	require.NoError(t, err)
	require.True(t, st.Set)
	const clocks = time.Second // what the clocks may differ by
	require.LessOrEqual(t, st.SetFor, most+clocks)
	require.GreaterOrEqual(t, st.SetFor, time.Until(ends)-clocks)
}

// A limit that is stopped by hand fails its calls, for a time or until it is resumed, or a call is served.
func TestStop(t *testing.T) {
	t.Parallel()
	s := newScene(t, redistest.Mini(t))
	l := s.limiter("openai", "10/s")
	require.NoError(t, l.Wait(t.Context()))
	s.known("openai")
	for _, more := range [][]string{{}, {"--for", "2h"}} {
		require.Contains(t, s.does(append([]string{"stop", "openai", "--reason", "no money", "-y"}, more...)...), "done: stop")
		var gone *reserve.Exhausted
		require.Eventually(t, func() bool { return errors.As(l.Wait(t.Context()), &gone) }, 20*time.Second, 20*time.Millisecond)
		require.Contains(t, gone.Reason, "no money")
		require.Equal(t, len(more) > 0, !gone.Until.IsZero())
		require.Contains(t, s.does("why", "openai"), "no money")
		require.Regexp(t, ` fails +calls fail: `, s.does("show", "openai"))
		s.does("resume", "openai", "-y")
		require.Eventually(t, func() bool { return l.Wait(t.Context()) == nil }, 20*time.Second, 20*time.Millisecond)
	}
}

// A printed command has the flags that were given, without the password, and asks the same Redis.
func TestPrintedCommandsHaveTheFlags(t *testing.T) {
	t.Parallel()
	server := redistest.Mini(t)
	s := newScene(t, server)
	s.prefix = "my app"
	l := s.limiter("openai", "10/s")
	require.NoError(t, l.Wait(t.Context()))
	s.known("openai")
	require.NoError(t, l.Stop(t.Context(), time.Time{}, "no credit"))
	prefix := s.prefix
	s.url, s.prefix = "", ""
	flags := []string{"--redis", server.URL(), "--prefix", prefix}
	given := " --redis " + server.URL() + " --prefix 'my app'\n"
	for _, command := range []string{"why openai", "why", "doctor"} {
		_, out, errs := s.command("", append(strings.Fields(command), flags...)...)
		want := "fleetpace resume openai"
		if command == "doctor" {
			want = "fleetpace why openai"
		}
		require.Contains(t, out, want+given, errs)
	}
	for url, want := range map[string]string{
		"redis://ann:secret@h/3": "redis://ann:PASSWORD@h/3", "redis://:secret@h:1?master_name=m&sentinel_password=secret": "redis://:PASSWORD@h:1?master_name=m&sentinel_password=PASSWORD",
		"redis://h:1?master_name=m&username=ann&password=secret": "redis://h:1?master_name=m&password=PASSWORD&username=ann", "redis://ann@h": "redis://ann@h",
	} {
		require.Equal(t, want, withoutPassword(url))
	}
}
