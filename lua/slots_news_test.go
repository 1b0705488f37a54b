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
	if sha != Take.Hash() { // take publishes nothing
		args[ArgChannel] = o.channel
	}
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

// Who was told that there is room does not come: it is told again with each moment that passes, by
// whatever script is called, and so are the first calls of other processes. Who looks hears that it
// is to look again.
func TestWhoDoesNotComeIsToldAgain(t *testing.T) {
	s, news := listening(t, redistest.New(t).Client(t), "s")
	limits := []queuemodel.Limit{{Kind: "s", A: 2, B: 1}}
	now := float64(startMicros)
	as := func(process string) queuemodel.Caller {
		return queuemodel.Caller{Now: now, Way: 100, Horizon: 250000, Near: 5000, Grace: 300000, Run: "run", Process: process, Serial: int(now)}
	}
	for _, who := range []struct {
		process string
		calls   int
	}{{"holder", 2}, {"first", 2}, {"second", 2}, {"third", 1}} {
		now += 1000
		_, _, err := s.Ask(as(who.process), limits, []queuemodel.Item{{Count: who.calls, Number: 1, Parts: []queuemodel.Part{{Cost: 1}}}})
		require.NoError(t, err)
	}
	look := func(what, which string, cost float64) (told []string, more bool) {
		args := append(headArgs(as("holder"), limits), 1, what, which, whole(cost)+":")
		if what == "look" {
			args[len(args)-1] = whole(cost)
		}
		reply := s.run("leave", Leave, limits, args)
		require.NoError(t, reply.err)
		reach := strings.Fields(reply.values[2].(string))
		require.NoError(t, s.client.(onChannel).Scripter.(*redis.Client).Publish(t.Context(), s.client.(onChannel).channel, "end").Err())
		for {
			message, err := news.ReceiveMessage(t.Context())
			require.NoError(t, err)
			if message.Payload == "end" {
				return told, reach[2] != "0"
			}
			told = append(told, strings.Split(strings.Fields(message.Payload)[1], ",")...)
		}
	}
	began := now
	told, more := look("done", "1", 1)
	require.Equal(t, []string{"room:first:1"}, told)
	require.True(t, more)
	for _, c := range []struct {
		after float64
		told  []string
	}{
		{100e3, nil}, {250e3, nil}, {310e3, []string{"room:first:1", "room:second:1", "room:third:1"}},
		{400e3, nil}, {610e3, []string{"room:first:1", "room:second:1", "room:third:1"}}, {890e3, nil},
	} {
		now = began + c.after
		told, more := look("look", "", 0)
		require.ElementsMatch(t, c.told, told, "after %v", c.after)
		require.True(t, more, "they have not come yet")
	}
	now = began + 910e3
	_, answers, err := s.Ask(as("second"), limits, []queuemodel.Item{{Count: 1, Number: 1, Parts: []queuemodel.Part{{Cost: 1, Tag: startMicros + 3100}}}})
	require.NoError(t, err)
	require.Equal(t, 1, answers[0].Status, "it has the slot of the one that did not come")
	told, more = look("look", "", 0)
	require.Empty(t, told)
	require.False(t, more, "there is no room")
}
