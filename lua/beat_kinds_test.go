package lua

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// kindsPlay sends heartbeats of processes whose limits are of kinds that are drawn, and of which some
// fall silent, end, rest or come back with another kind. It returns an error when two kinds are in
// force at once among those that live, when a process is kept out though no other kind is in use, or
// when what Redis knows of it is wrong.
func kindsPlay(t *testing.T, client *redis.Client, script *redis.Script, prefix string, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 20))
	type process struct {
		kind   string
		pace   int
		told   float64 // when it told of its limit last; 0: it does not use the name
		beaten float64
		in     bool    // its kind was in force then
		alone  float64 // since when it beats steadily, and is kept out though nobody lives who uses the name
		quiet  bool    // it is silent for some time
	}
	all := map[string]*process{}
	now, keys := startMicros, BeatKeys(prefix, "", "api")
	lives := func(p *process) bool { return p != nil && p.told > 0 && now-p.beaten < 3*second }
	quiet := 0 // rounds for which those are silent whose kind is in force
	for range 60 {
		if quiet--; quiet < -5 && random.IntN(8) == 0 {
			quiet = 20
			for _, p := range all {
				p.quiet = p.in
			}
		}
		now += (0.1 + 1.2*random.Float64()) * second
		for id := range 4 {
			name := fmt.Sprint("p", id)
			p := all[name]
			if p == nil || !lives(p) && quiet <= 0 && random.IntN(2) == 0 {
				p = &process{kind: []string{"p", "q", "r", "s", "w"}[random.IntN(5)], pace: 1 + random.IntN(9)}
			}
			draw := random.IntN(10)
			if draw == 0 && quiet <= 0 || quiet > 0 && p.quiet { // silent
				continue
			}
			limit, ends := fmt.Sprint(p.kind, " ", p.pace), 1
			if draw == 1 && p.told > 0 { // it rests, or ends
				limit, ends = "", random.IntN(2)
			}
			before := client.HGet(t.Context(), keys[2], name).Val()
			v, err := script.Run(t.Context(), client, keys, whole(now), name, 3*second, "", ends, Protocol, p.kind, p.pace, limit, `{"pid":1}`).Slice()
			require.NoError(t, err)
			if limit == "" {
				p.told, p.in = 0, false
				all[name] = p
				continue
			}
			steady := p.told > 0 && now-p.beaten < 1.5*second
			p.told, p.beaten, p.in = now, now, v[8] == p.kind
			all[name] = p
			entry := client.HGet(t.Context(), keys[2], name).Val()
			others := false
			for other, q := range all {
				if other == name || !lives(q) {
					continue
				}
				others = others || q.in && q.kind != p.kind
				if p.in && q.in && q.kind != p.kind {
					return fmt.Errorf("%s of %s and %s of %s are both in force", name, p.kind, other, q.kind)
				}
			}
			if p.in || others || !steady {
				p.alone = now
			}
			switch {
			case p.in && entry != fmt.Sprint(p.pace, " ", limit), !p.in && !strings.HasSuffix(entry, " "+limit):
				return fmt.Errorf("the entry of %s is %q", name, entry)
			case !p.in && strings.HasPrefix(before, "! ") && strings.HasSuffix(before, " "+limit) && entry != before:
				return fmt.Errorf("since when the calls of %s fail was %q and is %q", name, before, entry)
			case now-p.alone > 6*second:
				return fmt.Errorf("%s is kept out, and nobody uses %v", name, v[8])
			}
		}
	}
	return nil
}

// A name has one kind of limit, whoever beats in whatever order, dies, ends or comes back.
func TestBeatOneKind(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client, prefix := server.Client(t), redistest.Prefix(t)
		for seed := range uint64(20) {
			require.NoError(t, kindsPlay(t, client, Beat, fmt.Sprint(prefix, seed), seed), "seed %d", seed)
		}
	})
}

// The same histories find a script in which a line is wrong.
func TestBeatOneKindFindsBugs(t *testing.T) {
	client := still(t)
	prefix := redistest.Prefix(t)
	for i, bug := range [][3]string{
		{"another kind takes over from those who live", "old = s.live <= (was and 1 or 0)", "old = true"},
		{"whose calls fail counts", "'! ' .. micros(now) .. ' ' .. limit", "'1 ' .. limit"},
		{"nobody finds out that the others are dead", "if old then work = work + 1 + look(limits, reports, s) / 8 end\n    old", "old"},
		{"who ends leaves its kind behind", "kind = s.kind\n  elseif", "kind = kind\n  elseif"},
		{"since when calls fail is forgotten", "match(entry or '', '^! %d+ (.*)$') == limit and entry or '! '", "'! '"},
	} {
		require.Equal(t, 1, strings.Count(beat, bug[1]), bug[0])
		script := redis.NewScript(strings.Replace(beat, bug[1], bug[2], 1))
		found := slices.ContainsFunc(make([]struct{}, 20), func() func(struct{}) bool {
			seed := uint64(0)
			return func(struct{}) bool {
				seed++
				return kindsPlay(t, client, script, fmt.Sprint(prefix, i, "-", seed), seed-1) != nil
			}
		}())
		require.True(t, found, bug[0])
	}
}
