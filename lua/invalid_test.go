package lua

import (
	"fmt"
	"math"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

var (
	pacedLimit   = queuemodel.Limit{Kind: "p", A: 1e5, B: 5}
	rollingLimit = queuemodel.Limit{Kind: "r", A: 5, B: 1e6}
	warmingLimit = queuemodel.Limit{Kind: "w", A: 1e5, B: 1e6}
	quotaLimit   = queuemodel.Limit{Kind: "q", A: 5, B: 1000, Edges: []float64{startMicros, startMicros + 1e9, startMicros + 2e9}}
)

func held(t *testing.T, client *redis.Client, keys []string) string {
	t.Helper()
	all := ""
	for _, key := range keys {
		switch kind := client.Type(t.Context(), key).Val(); kind {
		case "hash":
			all += fmt.Sprint(key, client.HGetAll(t.Context(), key).Val())
		case "zset":
			all += fmt.Sprint(key, client.ZRangeWithScores(t.Context(), key, 0, -1).Val())
		default:
			all += key + " " + kind
		}
	}
	return all
}

// Bad input and a state that is no state get an error that names the field and the value,
// and change nothing.
func TestInvalid(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client := server.Client(t)
		one := []queuemodel.Item{{Count: 1, Number: 1e6, Parts: []queuemodel.Part{{Cost: 1}}}}
		for _, c := range []struct {
			what    string
			limit   queuemodel.Limit
			spoil   func(keys []string)
			who     func(*queuemodel.Caller)
			items   []queuemodel.Item
			says    string
			refused bool // the call alone
		}{
			{what: "way", who: func(c *queuemodel.Caller) { c.Way = -1 }, says: "BADARG way, horizon: want micros, a second together at most, got -1"},
			{what: "horizon", who: func(c *queuemodel.Caller) { c.Horizon = 2e6 }, says: "got 100, 2000000"},
			{what: "horizon NaN", who: func(c *queuemodel.Caller) { c.Horizon = math.NaN() }, says: "BADARG"},
			{what: "kind", limit: queuemodel.Limit{Kind: "x", A: 1, B: 1}, says: "BADARG kind: want p, q, r, s or w, got x"},
			{what: "a 0", limit: queuemodel.Limit{Kind: "p", A: 0, B: 1}, says: "BADARG a: want a number above 0, at most 1e15, got 0"},
			{what: "a NaN", limit: queuemodel.Limit{Kind: "p", A: math.NaN(), B: 1}, says: "BADARG a"},
			{what: "a Inf", limit: queuemodel.Limit{Kind: "p", A: math.Inf(1), B: 1}, says: "BADARG a"},
			{what: "a below 0", limit: queuemodel.Limit{Kind: "p", A: -1, B: 1}, says: "BADARG a"},
			{what: "b 0", limit: queuemodel.Limit{Kind: "p", A: 1, B: 0}, says: "BADARG b: want a number of at least 1, at most 1e15, got 0"},
			{what: "windows", limit: queuemodel.Limit{Kind: "q", A: 5, B: 1}, says: "CLOCK windows: want the edges around now and two more, got "},
			{what: "windows fall", limit: queuemodel.Limit{Kind: "q", A: 5, B: 1, Edges: []float64{startMicros, startMicros - 1, startMicros + 1}}, says: "BADARG windows: want rising moments"},
			{what: "count", items: []queuemodel.Item{{Count: 0, Parts: one[0].Parts}}, says: "BADARG count, number, how: want 1 to 10000 calls, 1 with an ID, a number, 0 to 8 or 16 to 24, or 32, 64 or both more, got 0, 0, 0"},
			{what: "parts", items: []queuemodel.Item{one[0], {Count: 1}}, says: "BADARG parts: want 1 to 16 limits"},
			{what: "cost 0", items: []queuemodel.Item{{Count: 1, Parts: []queuemodel.Part{{Cost: 0}}}}, refused: true},
			{what: "cost above the burst", items: []queuemodel.Item{{Count: 1, Parts: []queuemodel.Part{{Cost: 6}}}}, refused: true},
			{what: "cost NaN", items: []queuemodel.Item{{Count: 1, Parts: []queuemodel.Part{{Cost: math.NaN()}}}}, refused: true},
			{what: "tag NaN", items: []queuemodel.Item{{Count: 1, Parts: []queuemodel.Part{{Cost: 1, Tag: math.NaN()}}}}, refused: true},
			{what: "no such limit", items: []queuemodel.Item{{Count: 1, Parts: []queuemodel.Part{{Limit: 7, Cost: 1}}}}, refused: true},
			{what: "another type", spoil: func(k []string) { client.Set(t.Context(), k[0], "x", 0) }, says: "BADSTATE key: WRONGTYPE"},
			{what: "places of another type", spoil: func(k []string) { client.Set(t.Context(), k[1], "x", 0) }, says: "BADSTATE key: WRONGTYPE"},
			{what: "a log of another type", spoil: func(k []string) { client.Set(t.Context(), k[2], "x", 0) }, says: "BADSTATE key: WRONGTYPE"},
			{what: "another hash", spoil: func(k []string) { client.Del(t.Context(), k[0]); client.HSet(t.Context(), k[0], "x", "y") }, says: "BADSTATE plain: want a text, got nothing"},
			{what: "free", spoil: func(k []string) { client.HSet(t.Context(), k[0], "nextFreeTicketMicros", "x") }, says: "BADSTATE nextFreeTicketMicros: want a number, got x"},
			{what: "free nan", spoil: func(k []string) { client.HSet(t.Context(), k[0], "nextFreeTicketMicros", "nan") }, says: "BADSTATE nextFreeTicketMicros"},
			{what: "fraction inf", spoil: func(k []string) { client.HSet(t.Context(), k[0], "fraction", "inf") }, says: "BADSTATE fraction"},
			{what: "limit", spoil: func(k []string) { client.HSet(t.Context(), k[0], "limit", "1") }, says: "BADSTATE limit: want two numbers, got 1"},
			{what: "queue", spoil: func(k []string) { client.HSet(t.Context(), k[0], "queue", "1 x") }, says: "BADSTATE queue: want 9 values, got 1 x"},
			{what: "low marks", spoil: func(k []string) { client.HSet(t.Context(), k[0], "meter", "x") }, says: "BADSTATE meter: want three numbers and pairs, got x"},
			{what: "windows of a quota", limit: quotaLimit, spoil: func(k []string) { client.HSet(t.Context(), k[0], "meter", "x") }, says: "BADSTATE meter: want 4 values, got x"},
			{what: "counts of a window", limit: rollingLimit, spoil: func(k []string) { client.HSet(t.Context(), k[0], "meter", "x") }, says: "BADSTATE meter: want 3 values, got x"},
			{what: "stored permits", limit: warmingLimit, spoil: func(k []string) { client.HSet(t.Context(), k[0], "meter", "x") }, says: "BADSTATE meter: want stored permits, got x"},
		} {
			t.Run(c.what, func(t *testing.T) {
				limit, ask := pacedLimit, one
				if c.limit.Kind != "" {
					limit = c.limit
				}
				if c.items != nil {
					ask = c.items
				}
				s, who, limits := backlog(t, client, pacedLimit, 0)
				good := limit
				if c.spoil == nil {
					good = pacedLimit
				}
				s.keys = Keys(redistest.Prefix(t), "", "api", "any", "")
				_, _, err := s.Ask(who, []queuemodel.Limit{good}, []queuemodel.Item{{Count: 1, Number: 1, Parts: one[0].Parts}})
				require.NoError(t, err)
				if c.spoil != nil {
					c.spoil(s.keys)
				}
				if c.who != nil {
					c.who(&who)
				}
				before := held(t, client, s.keys)
				limits[0] = limit
				_, answers, err := s.Ask(who, limits, ask)
				if c.refused {
					require.NoError(t, err)
					require.Equal(t, 2, answers[0].Status)
					return
				}
				require.ErrorContains(t, err, c.says)
				require.Equal(t, before, held(t, client, s.keys))
			})
		}
	})
}

// A limit that warms up wants a period, from whoever sets it: without one all its moments would be
// no numbers from then on.
func TestSetWantsAPeriod(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client := server.Client(t)
		s, who, limits := backlog(t, client, warmingLimit, 0)
		ask := []queuemodel.Item{{Count: 1, Number: 1, Parts: []queuemodel.Part{{Cost: 1}}}}
		_, _, err := s.Ask(who, limits, ask)
		require.NoError(t, err)
		before := held(t, client, s.keys)
		_, err = s.Set(who, limits, 2e4, 0, 0)
		require.ErrorContains(t, err, "BADARG a, b")
		require.Equal(t, before, held(t, client, s.keys))
	})
}

// The longest time is the same for limits, pauses and what is set: Longest.
func TestBounds(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client := server.Client(t)
		ask := []queuemodel.Item{{Count: 1, Number: 1, Parts: []queuemodel.Part{{Cost: 1}}}}
		for _, c := range []struct {
			length float64
			ok     bool
		}{{Longest / 2, true}, {Longest, true}, {Longest + 1, false}, {Longest * 3, false}} {
			for _, limit := range []queuemodel.Limit{{Kind: "p", A: c.length, B: 1}, {Kind: "w", A: c.length, B: 1e6}, {Kind: "r", A: 5, B: c.length}} {
				s, who, _ := backlog(t, client, pacedLimit, 0)
				s.keys = Keys(redistest.Prefix(t), "", "api", limit.Kind, "")
				good := []queuemodel.Limit{{Kind: limit.Kind, A: 5, B: 1e6}}
				_, _, err := s.Ask(who, []queuemodel.Limit{limit}, ask)
				require.Equal(t, c.ok, err == nil, "ask: %v: %v", limit, err)
				_, err = s.Set(who, good, limit.A, limit.B, 0)
				require.Equal(t, c.ok, err == nil, "set: %v: %v", limit, err)
				_, err = s.Set(who, good, 5, 1e6, c.length)
				require.Equal(t, c.ok, err == nil, "set for %v: %v", c.length, err)
				_, _, err = s.Pause(who, good, c.length, 0)
				require.Equal(t, c.ok, err == nil, "pause for %v: %v", c.length, err)
			}
		}
	})
}
