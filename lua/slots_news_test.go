package lua

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// onChannel has script calls publish their news.
type onChannel struct {
	redis.Scripter
	channel string
}

func (o onChannel) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	args[8] = o.channel
	return o.Scripter.EvalSha(ctx, sha, keys, args...)
}

// listening is a limit of a kind whose scripts publish their news, and what hears them.
func listening(t *testing.T, client *redis.Client, kind string) (*server, *redis.PubSub) {
	prefix := redistest.Prefix(t)
	for _, script := range []*redis.Script{Ask, Leave, Settle} {
		require.NoError(t, script.Load(t.Context(), client).Err())
	}
	channel := Channel(prefix, "", "api")
	news := client.Subscribe(t.Context(), channel)
	t.Cleanup(func() { _ = news.Close() })
	_, err := news.Receive(t.Context())
	require.NoError(t, err)
	return serverOf(t.Context(), onChannel{client, channel}, Keys(prefix, "", "api", kind, "")), news
}

// While there is room for the first who wait, and they have not come for it, others get nearer the
// front: each process hears for how many of its calls there is room by now, however many it has
// heard of before.
func TestNewsOfRoomCountAllThatThereIs(t *testing.T) {
	s, news := listening(t, redistest.New(t).Client(t), "s")
	limits := []queuemodel.Limit{{Kind: "s", A: 3, B: 1}}
	now := float64(startMicros)
	as := func(process string) queuemodel.Caller {
		now += 1000
		return queuemodel.Caller{Now: now, Way: 100, Horizon: 250000, Near: 5000, Grace: 300000, Run: "run", Process: process, Serial: int(now)}
	}
	ask := func(process string, calls int) {
		_, _, err := s.Ask(as(process), limits, []queuemodel.Item{{Count: calls, Number: 1, Parts: []queuemodel.Part{{Cost: 1}}}})
		require.NoError(t, err)
	}
	leave := func(process, what, which string) (told string) {
		var flow *queuemodel.Flow
		if what == "done" {
			flow = &queuemodel.Flow{}
		}
		_, _, err := s.Leave(as(process), limits, 0, what, which, 1, flow)
		require.NoError(t, err)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		message, err := news.ReceiveMessage(ctx)
		require.NoError(t, err)
		return strings.Fields(message.Payload)[1]
	}
	ask("holder", 3)
	ask("first", 1)
	ask("second", 1)
	ask("third", 3)
	require.Equal(t, "room:first:1", leave("holder", "done", "1"))
	require.ElementsMatch(t, []string{"room:first:1", "room:second:1"}, strings.Split(leave("holder", "done", "2"), ","))
	require.ElementsMatch(t, []string{"room:first:1", "room:second:1", "room:third:1"}, strings.Split(leave("holder", "done", "3"), ","))
	require.Equal(t, "room:third:2", leave("first", "place", "1"))
	require.Equal(t, "room:third:3", leave("second", "place", "1"))
}
