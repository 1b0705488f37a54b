package lua

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// Each change of a limit is told, whatever its cause, and so is until when a pause lasts. No turn is
// void for a change.
func TestNewsOfChanges(t *testing.T) {
	client := redistest.New(t).Client(t)
	for _, script := range []*redis.Script{Set, Pause, Resume} {
		require.NoError(t, script.Load(t.Context(), client).Err())
	}
	s, news := listening(t, client, "p")
	now := float64(startMicros)
	as := func(seconds float64) queuemodel.Caller {
		now = startMicros + seconds*1e6
		return queuemodel.Caller{Now: now, Way: 100, Horizon: 250000, Near: 5000, Grace: 300000, Run: "run", Process: "a", Serial: int(now)}
	}
	limits := []queuemodel.Limit{{Kind: "p", A: 20000, B: 5}}
	ask := func(seconds float64, rank float64) error {
		limits[0].Rank = rank
		_, _, err := s.Ask(as(seconds), limits, []queuemodel.Item{{Count: 1, Number: int(seconds), Parts: []queuemodel.Part{{Cost: 1}}}})
		return err
	}
	set := func(seconds, a, b, micros float64) error {
		_, err := s.Set(as(seconds), limits, a, b, micros)
		return err
	}
	pause := func(seconds, micros float64) error {
		_, _, err := s.Pause(as(seconds), limits, micros, 0)
		return err
	}
	require.NoError(t, ask(0, 0))
	for _, test := range []struct {
		what string
		do   func() error
		want string
	}{
		{"half of the pace", func() error { return set(1, 40000, 5, 0) }, "limit:2:0"},
		{"a smaller burst, at the old pace", func() error { return set(2, 20000, 3, 0) }, "limit:0.5:40000"},
		{"the same again", func() error { return set(3, 20000, 3, 1e6) }, ""},
		{"its expiry", func() error { return ask(10, 0) }, "limit:1:0"},
		{"a limit of another rank", func() error { limits[0].A = 10000; return ask(11, 7) }, "limit:0.5:0"},
		{"a pause", func() error { return pause(12, 5e6) }, fmt.Sprintf("until:%.0f,paused", startMicros+17e6)},
		{"a shorter one", func() error { return pause(13, 1e6) }, ""},
		{"its end", func() error { _, err := s.Resume(as(14), limits); return err }, "resumed"},
	} {
		require.NoError(t, test.do(), test.what)
		require.NoError(t, client.Publish(t.Context(), s.client.(onChannel).channel, "news none 0 x").Err())
		var told []string
		for {
			m, err := news.ReceiveMessage(t.Context())
			require.NoError(t, err)
			words := strings.Fields(m.Payload)
			if words[1] == "none" {
				break
			}
			require.Equal(t, fmt.Sprintf("%.0f", now), words[2], test.what)
			told = append(told, words[1])
		}
		require.Equal(t, test.want, strings.Join(told, " "), test.what)
	}
}
