package lua

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// planning is processes that have different plans of one key, against the scripts and the model.
type planning struct {
	*rand.Rand
	client  *redis.Client
	server  *server
	model   *queuemodel.Redis
	kind    string // of the keys
	newKind string // of the newest plan
	now     float64
	newest  float64 // the rank of the newest plan …
	a, b    float64 // … and its limit
	brought float64 // the highest rank that was brought since the data was lost last
	number  int
	who     []*planner
	counts  map[string]int
}

type planner struct {
	name   string
	serial int
	limit  queuemodel.Limit // its plan, and what it remembers
	at     float64          // when the last reply was there
	waits  []queuemodel.Item
}

func newPlanning(ctx context.Context, seed uint64, client *redis.Client, prefix string, bug *redis.Script) *planning {
	p := &planning{Rand: rand.New(rand.NewPCG(seed, 37)), client: client, model: queuemodel.New(), now: startMicros, counts: map[string]int{}, newest: 1 << 40}
	p.kind = []string{"p", "p", "q", "r", "w"}[p.IntN(5)]
	p.newKind = p.kind
	p.server = serverOf(ctx, client, Keys(prefix, "", "api", p.kind, ""))
	if bug != nil {
		p.server.other = map[string]*redis.Script{"ask": bug}
	}
	p.a, p.b = p.limit()
	for i := range 3 {
		p.who = append(p.who, &planner{name: fmt.Sprint("p", i), limit: queuemodel.Limit{Kind: p.kind, A: p.a, B: p.b, Rank: p.newest, Plan: i < 2 || p.IntN(2) == 0}})
	}
	return p
}

// form is the argument KIND of a kind, if that of the keys is another one.
func (p *planning) form(kind string) string {
	return map[string]string{p.kind: "", "q": "q minute/UTC"}[kind] + map[string]string{p.kind: "", "p": "p -", "r": "r -", "w": "w -"}[kind]
}

func (p *planning) limit() (a, b float64) {
	switch p.newKind {
	case "p":
		return float64(20_000 + p.IntN(500_000)), float64(1 + p.IntN(5))
	case "w":
		return float64(20_000 + p.IntN(500_000)), float64(500_000 + p.IntN(3_000_000))
	case "r":
		return float64(5 + p.IntN(20)), float64(500_000 + p.IntN(3_000_000))
	default:
		return float64(5 + p.IntN(20)), 1000
	}
}

// play lets processes ask while plans change. It returns where the scripts and the model differ, or where a plan
// is in force that is not the newest one that was brought.
func (p *planning) play(ctx context.Context) error {
	for range 60 {
		p.now += float64(p.IntN(400_000))
		of := p.who[p.IntN(len(p.who))]
		switch p.IntN(12) {
		case 0, 1: // the program has a newer plan, which one process knows
			p.newest++
			if p.IntN(2) == 0 {
				p.newKind = []string{"p", "q", "r", "w"}[p.IntN(4)]
			}
			p.a, p.b = p.limit()
			p.has(of, p.newKind, p.a, p.b, p.newest)
		case 2:
			if p.IntN(3) == 0 {
				if err := p.lose(ctx); err != nil {
					return err
				}
			}
		}
		if err := p.ask(of); err != nil {
			return err
		}
	}
	return nil
}

func (p *planning) lose(ctx context.Context) error {
	p.counts["lost"]++
	p.model.Limits, p.brought = map[int]*queuemodel.State{}, 0
	return p.client.Del(ctx, p.server.keys...).Err()
}

// has gives a process a plan. What it remembers of another kind is nothing to the new one.
func (p *planning) has(of *planner, kind string, a, b, rank float64) {
	if of.limit.Kind != kind {
		of.limit.Reach = nil
	}
	of.limit.Kind, of.limit.Form, of.limit.A, of.limit.B, of.limit.Rank = kind, p.form(kind), a, b, rank
	of.limit.Plan = of.limit.Plan || rank > 1<<40
}

// sent is what a process sends of the limit.
func (p *planning) sent(of *planner) queuemodel.Limit {
	l := of.limit
	passed := p.now - of.at
	switch l.Reach = append([]float64(nil), l.Reach...); {
	case len(l.Reach) == 0:
	case l.Kind == "p" || l.Kind == "w":
		l.Reach[0] -= passed
	case l.Kind == "r":
		l.Reach[1] -= passed
	}
	if l.Clock = p.now; l.Kind == "q" {
		first := float64(int64(p.now)/windowMicros) * windowMicros
		for k := range 5 {
			l.Edges = append(l.Edges, first+float64(k)*windowMicros)
		}
	}
	return l
}

func (p *planning) ask(of *planner) error {
	of.serial++
	who := queuemodel.Caller{Now: p.now, Way: 100, Horizon: 250_000, Near: 60_000, Grace: 300_000, Run: "run", Process: of.name, Serial: of.serial}
	limits := []queuemodel.Limit{p.sent(of)}
	p.number++
	items := append([]queuemodel.Item{{Count: 1, Number: p.number, Parts: []queuemodel.Part{{Cost: 1}}}}, of.waits...)
	other := p.model.Other(0, limits[0])
	heads, answers, err := p.server.Ask(who, limits, items)
	if other != "" && err != nil && err.Error() == "limit 0: "+other { // it has another kind, and asks again
		p.counts["other kind"]++
		return p.follow(of, other[5:])
	}
	if err != nil || other != "" {
		return fmt.Errorf("the script says %v, the model %q", err, other)
	}
	modelHeads, modelAnswers := p.model.Ask(who, limits, items)
	p.model.Grow(0, heads[0].Version)
	modelHeads[0].Version = max(modelHeads[0].Version, heads[0].Version)
	for i := range answers {
		if d := answers[i].Usable - modelAnswers[i].Usable; d <= 1 && d >= -1 {
			answers[i].Usable = modelAnswers[i].Usable
		}
	}
	if !reflect.DeepEqual(heads, modelHeads) || !reflect.DeepEqual(answers, modelAnswers) {
		return fmt.Errorf("ask %+v of %+v: the script says\n%+v %+v, the model\n%+v %+v", items, limits, heads, answers, modelHeads, modelAnswers)
	}
	var waits []queuemodel.Item
	for i, a := range answers {
		if a.Status == 0 {
			item := items[i]
			item.Parts = []queuemodel.Part{{Cost: 1, Tag: a.Tags[0]}}
			waits = append(waits, item)
		}
	}
	of.waits = waits
	return p.learn(of, heads[0])
}

// learn follows what a reply says.
func (p *planning) learn(of *planner, head queuemodel.Head) error {
	p.brought = max(p.brought, of.limit.Rank)
	text, plan, follows := strings.Cut(strings.TrimPrefix(head.Text, "~"), "@")
	if text == "" {
		text = of.limit.Known
	}
	of.limit.Known, of.limit.Version, of.limit.Reach, of.at = text, head.Version, head.Reach, p.now+100
	if follows {
		p.counts["follow"]++
		if !of.limit.Plan {
			return fmt.Errorf("%s has no plans, and is told %s", of.name, plan)
		}
		if err := p.follow(of, plan); err != nil {
			return err
		}
	}
	in := text[strings.LastIndex(text, " "+of.limit.Kind+" ")+3:]
	if own := fmt.Sprintf("%.17g %.17g", of.limit.A, of.limit.B); of.limit.Plan && in != own {
		return fmt.Errorf("%s has the plan %s, and %s is in force", of.name, own, in)
	}
	return nil
}

// follow gives a process the plan that it is told.
func (p *planning) follow(of *planner, plan string) error {
	words := strings.Fields(plan)
	kind := p.kind
	if len(words) > 3 {
		kind = words[1]
	}
	var rank, a, b float64
	if _, err := fmt.Sscan(words[0]+" "+strings.Join(words[len(words)-2:], " "), &rank, &a, &b); err != nil {
		return err
	}
	if rank != p.brought || rank < of.limit.Rank {
		return fmt.Errorf("%s with %v is told %s, the newest is %v", of.name, of.limit.Rank, plan, p.brought)
	}
	p.has(of, kind, a, b, rank)
	return nil
}

// The newest plan that any process has brought is in force, and who brought an older one is told: with limits of all
// kinds but slots, with processes that have plans and one that may have none, and after losses of data. The scripts and the
// model agree. The mistakes are found.
func TestPlansEqualModel(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client, prefix := server.Client(t), redistest.Prefix(t)
		counts := map[string]int{}
		for seed := range uint64(40) {
			p := newPlanning(t.Context(), seed, client, fmt.Sprint(prefix, seed), nil)
			require.NoError(t, p.play(t.Context()), "seed %d, kind %s", seed, p.kind)
			for what, n := range p.counts {
				counts[what] += n
			}
		}
		t.Log(counts)
		require.Greater(t, min(counts["follow"], counts["other kind"]), 100)
	})
	client, prefix := redistest.New(t).Client(t), redistest.Prefix(t)
	for _, bug := range []struct{ what, from, to string }{
		{"an older plan is in force", "l.myRank > l.rank then", "true then"},
		{"a newer plan is not in force", "l.myRank > l.rank then", "false then"},
		{"the rank is not kept", "l.own, l.rank = l.mine, max(l.myRank, l.rank)", "l.own = l.mine"},
		{"nobody is told of a newer plan", "if l.own ~= l.mine and hasPlan(l) then", "if false then"},
		{"who has no plans is told of them", "if l.own ~= l.mine and hasPlan(l) then", "if l.own ~= l.mine then"},
		{"who waits is told a limit that is not in force", "l.a, l.b, l.limit, l.renews = to.a, to.b, text, true", "l.a, l.b, l.renews = to.a, to.b, true"},
		{"an older plan of another kind is in force", "if l.myRank <= l.rank then return format", "if false then return format"},
		{"a newer plan of another kind is not in force", "if l.myRank <= l.rank then return format", "if true then return format"},
		{"another kind begins with permits that were used", "if used > 0 then l.meter.spend(l, min(used, l.a), at) end", ""},
		{"what was used two kinds before is forgotten", "if more and tonumber(ends) > now then", "if false then"},
		{"another kind begins before granted turns are over", "l.meter.close(l, now + AHEAD)\n  tell", "tell"},
	} {
		require.Equal(t, 1, strings.Count(texts["ask"], bug.from), bug.what)
		script, found := redis.NewScript(strings.Replace(texts["ask"], bug.from, bug.to, 1)), false
		for seed := uint64(0); seed < 40 && !found; seed++ {
			found = newPlanning(t.Context(), seed, client, fmt.Sprint(prefix, bug.what, seed), script).play(t.Context()) != nil
		}
		assert.True(t, found, "nothing finds: %s", bug.what)
	}
}
