package lua

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

const second = 1e6

// fleet sends heartbeats of processes; those are silent for 3 s when they are dead.
type fleet struct {
	*testing.T
	client *redis.Client
	prefix string
	now    float64
	news   string
}

type heartbeat struct {
	known        bool
	alive, rank  int64
	limit, error string
}

func (f *fleet) beat(process string, pace float64, limit string) heartbeat {
	f.Helper()
	lives := 1
	if limit == "" {
		lives = 0
	}
	v, err := Beat.Run(context.Background(), f.client, BeatKeys(f.prefix, "", "api"), whole(f.now), process, 3*second, f.news, lives, Protocol, "p", pace, limit, "").Slice()
	if err != nil {
		return heartbeat{error: err.Error()}
	}
	require.Equal(f, int64(f.now), v[0])
	return heartbeat{known: v[1] != int64(0), alive: v[5].(int64), rank: v[6].(int64), limit: v[7].(string)}
}

func newFleet(t *testing.T, server *redistest.Server) *fleet {
	return &fleet{T: t, client: server.Client(t), prefix: redistest.Prefix(t), now: startMicros}
}

// The slowest limit of those that live is in force; each change has a higher rank.
func TestBeatSlowestLimitRules(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		f := newFleet(t, server)
		require.Equal(t, heartbeat{alive: 1, rank: 1, limit: "p 100000 1"}, f.beat("a", 10, "p 100000 1"))
		require.Equal(t, heartbeat{alive: 2, rank: 1, limit: "p 100000 1"}, f.beat("b", 20, "p 50000 1"))
		require.Equal(t, heartbeat{known: true, alive: 2, rank: 2, limit: "p 50000 1"}, f.beat("a", 30, "p 33333 1"))
		require.Equal(t, heartbeat{alive: 3, rank: 3, limit: "p 1000000 1"}, f.beat("c", 1, "p 1000000 1"))
		for range 4 { // c falls silent
			f.now += second
			f.beat("a", 30, "p 33333 1")
			f.beat("b", 20, "p 50000 1")
		}
		require.Equal(t, heartbeat{known: true, alive: 2, rank: 4, limit: "p 50000 1"}, f.beat("a", 30, "p 33333 1"))
		require.Equal(t, heartbeat{known: true, alive: 3, rank: 5, limit: "p 1000000 1"}, f.beat("c", 1, "p 1000000 1"), "it is back")
	})
}

// The clock of Redis steps back an hour just after a process has beaten for the last time: it is
// found dead as soon as ever.
func TestBeatFindsTheDeadAfterAStepBack(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		f := newFleet(t, server)
		f.beat("a", 10, "p 100000 1")
		f.beat("b", 1, "p 1000000 1")
		f.now -= 3600 * second
		for range 5 {
			f.beat("a", 10, "p 100000 1")
			f.now += second
		}
		require.Equal(t, heartbeat{known: true, alive: 1, rank: 3, limit: "p 100000 1"}, f.beat("a", 10, "p 100000 1"))
		require.Negative(t, f.client.ZScore(t.Context(), BeatKeys(f.prefix, "", "api")[0], "b").Val())
	})
}

// Who signs off is not dead, and its limit does not count.
func TestBeatSignsOff(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		f := newFleet(t, server)
		require.Equal(t, heartbeat{}, f.beat("d", 10, ""), "nobody was here")
		f.beat("a", 10, "p 100000 1")
		f.beat("b", 1, "p 1000000 1")
		require.Equal(t, heartbeat{known: true, alive: 1, rank: 3, limit: "p 100000 1"}, f.beat("b", 1, ""))
		require.Equal(t, heartbeat{known: true, alive: 1, rank: 3, limit: "p 100000 1"}, f.beat("b", 1, ""), "again")
		require.Equal(t, heartbeat{known: true, alive: 1, rank: 3, limit: "p 100000 1"}, f.beat("a", 10, "p 100000 1"))
		keys := BeatKeys(f.prefix, "", "api")
		require.Equal(t, []string{"b", "a"}, f.client.ZRange(t.Context(), keys[0], 0, -1).Val())
		require.Negative(t, f.client.ZScore(t.Context(), keys[0], "b").Val(), "as if it was dead")
		f.beat("a", 10, "")
		require.Equal(t, heartbeat{alive: 1, rank: 4, limit: "p 500000 1"}, f.beat("c", 2, "p 500000 1"), "nobody's limit is left")
	})
}

// Where everybody was silent, nobody is dead.
func TestBeatAGapOfAllCountsForNobody(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		f := newFleet(t, server)
		for _, process := range []string{"a", "b", "c"} {
			f.beat(process, 10, "p 100000 1")
		}
		f.now += 60 * second // Redis stood still, or its clock jumped
		f.beat("a", 10, "p 100000 1")
		f.now += second
		require.True(t, f.beat("b", 10, "p 100000 1").known)
		f.now += second
		require.True(t, f.beat("c", 10, "p 100000 1").known)
		f.now -= 60 * second // and back
		require.Equal(t, int64(3), f.beat("a", 10, "p 100000 1").alive)
	})
}

// Redis that lost its data does not know who has beaten before.
func TestBeatAfterALoss(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		f := newFleet(t, server)
		f.beat("a", 10, "p 100000 1")
		require.True(t, f.beat("a", 10, "p 100000 1").known)
		require.NoError(t, f.client.Del(t.Context(), BeatKeys(f.prefix, "", "api")...).Err())
		require.False(t, f.beat("a", 10, "p 100000 1").known)
	})
}

// Places of a process that died leave as soon as one of them is at the head and does not
// come; the others wait no longer for them.
func TestBeatBuriesTheDead(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		f := newFleet(t, server)
		limit := queuemodel.Limit{Kind: "p", A: 1e6, B: 1}
		s := serverOf(t.Context(), f.client, Keys(f.prefix, "", "api", "p", ""))
		who := queuemodel.Caller{Now: f.now, Horizon: 250000, Near: 5000, Grace: 300000, Run: "run", Process: "dead", Serial: 1}
		ask := func(number int, tag float64) queuemodel.Answer {
			_, answers, err := s.Ask(who, []queuemodel.Limit{limit}, []queuemodel.Item{{Count: 1, Number: number, Parts: []queuemodel.Part{{Cost: 1, Tag: tag}}}})
			require.NoError(t, err)
			return answers[0]
		}
		f.beat("dead", 1, "p 1000000 1")
		require.Equal(t, 1, ask(0, 0).Status)
		for n := 1; n <= 50; n++ {
			require.Equal(t, 0, ask(n, 0).Status)
		}
		who.Process = "alive"
		f.beat("alive", 1, "p 1000000 1")
		last := ask(1, 0)
		require.Equal(t, 51*second, last.Wait)
		for range 5 {
			f.now += second
			f.beat("alive", 1, "p 1000000 1")
		}
		who.Now = f.now
		require.Equal(t, 1, ask(1, last.Tags[0]).Status, "nobody else is there")
	})
}

// News tell who died, and where another limit is in force.
func TestBeatTellsTheNews(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		f := newFleet(t, server)
		f.news = f.prefix + "news"
		hears := f.client.Subscribe(t.Context(), f.news)
		defer func() { _ = hears.Close() }()
		_, err := hears.Receive(t.Context())
		require.NoError(t, err)
		next := func() string {
			message, err := hears.ReceiveTimeout(t.Context(), time.Minute)
			require.NoError(t, err)
			return message.(*redis.Message).Payload
		}
		limits := BeatKeys(f.prefix, "", "api")[2]
		f.beat("a", 10, "p 100000 1")
		require.Equal(t, "limit 1 "+limits, next())
		f.beat("b", 5, "p 200000 1")
		require.Equal(t, "limit 2 "+limits, next())
		for range 4 {
			f.now += second
			f.beat("a", 10, "p 100000 1")
		}
		require.Equal(t, "dead b", next())
		require.Equal(t, "limit 3 "+limits, next())
	})
}

func TestBeatOfNobody(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		f := newFleet(t, server)
		for _, name := range []string{"", "a b", "a:b"} {
			require.Contains(t, f.beat(name, 10, "p 1 1").error, "BADARG process", fmt.Sprintf("%q", name))
		}
		require.Contains(t, f.beat("a", 0, "p 1 1").error, "BADARG kind, pace")
	})
}
