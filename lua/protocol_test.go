package lua

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// protocolsPlay sends heartbeats of processes whose protocols are drawn, of which some start, end, fall silent or come
// back, in any order. It returns what is wrong with the replies. A process is in if Redis lets its limit count.
func protocolsPlay(t *testing.T, client *redis.Client, script *redis.Script, prefix string, seed uint64) error {
	t.Helper()
	type process struct {
		protocol int
		told     float64 // when it last sent a heartbeat; 0: it has ended
		in       bool
	}
	random := rand.New(rand.NewPCG(seed, 31))
	keys, all, now := BeatKeys(prefix, "", "api"), map[string]*process{}, startMicros
	in := map[int]float64{} // by protocol: when a process that is in last sent a heartbeat
	steady := now           // since when there is no gap in all heartbeats
	lives := func(told float64) bool { return told > 0 && now-max(told, steady) < 3*second }
	for range 150 {
		now += (0.02 + 0.4*random.Float64()) * second
		if random.IntN(20) == 0 {
			now += 4 * second
		}
		last := 0.0
		for _, q := range all {
			last = max(last, q.told)
		}
		if now-last > 1.5*second {
			steady = now
		}
		name := fmt.Sprint("process-", random.IntN(5))
		p := all[name]
		if p == nil || !lives(p.told) && random.IntN(2) == 0 {
			p = &process{protocol: 3 + random.IntN(4)}
			all[name] = p
		}
		limit, alive := "10/s", 1
		if p.told > 0 && random.IntN(15) == 0 {
			limit, alive = "", 0
		}
		v, err := script.Run(t.Context(), client, keys, whole(now), name, 3*second, "", alive, p.protocol, "p", 10, limit, `{"pid":1}`).Slice()
		require.NoError(t, err)
		if alive == 0 {
			p.told, p.in = 0, false
			continue
		}
		theirs, number := strconv.Atoi(v[8].(string))
		p.told, p.in = now, number != nil
		apart := func(protocol int) bool { return protocol < p.protocol-1 || protocol > p.protocol+1 }
		lowest, kept := p.protocol, false
		for protocol, told := range in {
			switch {
			case protocol == p.protocol:
			case lives(told):
				lowest, kept = min(lowest, protocol), kept || apart(protocol)
			default: // another gap changes nothing
				delete(in, protocol)
			}
		}
		for other, q := range all {
			q.in = q.in && lives(q.told)
			if q.in && p.in && apart(q.protocol) {
				return fmt.Errorf("%s of protocol %d and %s of %d are both in", name, p.protocol, other, q.protocol)
			}
		}
		if p.in {
			in[p.protocol] = now
		}
		switch told, young := int(v[4].(int64)), now-steady < 3*second; {
		case young != (told == 0):
			return fmt.Errorf("%s is told of protocol %d, %.1f s after a gap", name, told, (now-steady)/second)
		case told > 0 && told != lowest:
			return fmt.Errorf("%s is told that the lowest protocol is %d, and it is %d", name, told, lowest)
		case !p.in && !apart(theirs):
			return fmt.Errorf("%s of protocol %d is refused by %d", name, p.protocol, theirs)
		case !p.in && !kept:
			return fmt.Errorf("%s of protocol %d is refused by %d, which is gone", name, p.protocol, theirs)
		}
	}
	return nil
}

// Processes of a protocol and of the next one share limits. A process of a later or earlier one that comes later is
// refused until the others are gone, and each is told the lowest protocol.
func TestBeatProtocols(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client, prefix := server.Client(t), redistest.Prefix(t)
		for seed := range redistest.Budget[uint64](20, 6) {
			require.NoError(t, protocolsPlay(t, client, Beat, fmt.Sprint(prefix, seed), seed), "seed %d", seed)
		}
	})
}

// The same histories find a script in which a line is wrong.
func TestBeatProtocolsFindsBugs(t *testing.T) {
	client := still(t)
	prefix := redistest.Prefix(t)
	for i, bug := range [][3]string{
		{"all protocols mix", "if math.abs(number - protocol) > 1 then", "if false then"},
		{"no two protocols mix", "if math.abs(number - protocol) > 1 then", "if number ~= protocol then"},
		{"those that are refused keep others out", "if ARGV[5] == '1' and not foreign then", "if ARGV[5] == '1' then"},
		{"those that are gone stay", "call('HDEL', BEATS, 'protocol ' .. number)\n", "lowest = math.min(lowest, number)\n"},
		{"who is silent in a gap is forgotten", "elseif now - since >= silence and now - beaten >= silence", "elseif now - beaten >= silence"},
		{"the highest is told", "lowest = math.min(lowest, number)", "lowest = math.max(lowest, number)"},
		{"after a gap the others are not known", "now - since < silence and 0 or lowest", "lowest"},
	} {
		require.Equal(t, 1, strings.Count(beat, bug[1]), bug[0])
		script := redis.NewScript(strings.Replace(beat, bug[1], bug[2], 1))
		seeds := []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}
		require.True(t, slices.ContainsFunc(seeds, func(seed uint64) bool {
			return protocolsPlay(t, client, script, fmt.Sprint(prefix, i, "-", seed), seed) != nil
		}), bug[0])
	}
}

// The first process of another protocol is announced, so that the others know at once. A later protocol that has
// written a state keeps out those that cannot read it, and the next one does not.
func TestProtocolOfAState(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client, prefix := server.Client(t), redistest.Prefix(t)
		news := client.Subscribe(t.Context(), "news")
		defer func() { _ = news.Close() }()
		_, err := news.Receive(t.Context())
		require.NoError(t, err)
		keys := BeatKeys(prefix, "", "api")[:2]
		for _, protocol := range []int{4, 4, 3, 4, 3} {
			require.NoError(t, Beat.Run(t.Context(), client, keys, whole(startMicros), fmt.Sprint("p", protocol), 3*second, "news", 1, protocol).Err())
		}
		require.NoError(t, client.Publish(t.Context(), "news", "end").Err())
		var told []string
		for len(told) == 0 || told[len(told)-1] != "end" {
			m, err := news.ReceiveMessage(t.Context())
			require.NoError(t, err)
			told = append(told, m.Payload)
		}
		require.Equal(t, []string{"protocol 3", "end"}, told)

		state := Keys(prefix, "", "api", "p", "")
		ask := func() string {
			v, err := Ask.Run(t.Context(), client, state, whole(startMicros), 0, 1000, 1000, 300000, "", "p", 1, "", "p", 1000, 5, 0, "", 0, "", "", "", 0,
				1, 1, 0, 1, 1, 1, "").Slice()
			require.NoError(t, err)
			return v[4].(string)
		}
		require.Empty(t, ask())
		require.Equal(t, fmt.Sprint(Protocol), client.HGet(t.Context(), state[0], "protocol").Val())
		for _, c := range []struct {
			has     any
			problem string
			then    string
		}{{Protocol + 1, "", fmt.Sprint(Protocol + 1)}, {Protocol + 2, fmt.Sprint("PROTOCOL ", Protocol+2), fmt.Sprint(Protocol + 2)}, {"x", "", fmt.Sprint(Protocol)}} {
			require.NoError(t, client.HSet(t.Context(), state[0], "protocol", c.has).Err())
			require.Equal(t, c.problem, ask())
			require.Equal(t, c.then, client.HGet(t.Context(), state[0], "protocol").Val())
		}
		require.NoError(t, client.HDel(t.Context(), state[0], "protocol").Err()) // v0.2
		require.Empty(t, ask())
		require.Equal(t, fmt.Sprint(Protocol), client.HGet(t.Context(), state[0], "protocol").Val())
	})
}
