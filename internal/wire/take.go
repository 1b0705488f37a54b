package wire

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	scripts "github.com/fleetpace/fleetpace/lua"
)

// This file asks with script take where all calls are new, and nobody seems to wait at their limits. Script
// take is cheaper for Redis than ask. Where it gives no turns, the calls ask in full.

// takesWithin is the longest way from Redis with which calls ask with script take. Where they have to ask in full
// after all, they need a second round trip.
const takesWithin = 2 * time.Millisecond

// group is what limits of script take have in common.
type group struct {
	a, b        string
	count       int
	cost        int64
	first, size int // the index of its first argument, and how many limits it has
}

// take asks for turns, and reports false if the items have to ask in full. The items that it answers with a
// count of 0 have to do so, too.
func (c *Call) take(ctx context.Context, items []Item) (reply Reply, answers []Answers, ok bool, err error) {
	if len(items) != len(c.Limits) || c.Way > takesWithin {
		return Reply{}, nil, false, nil
	}
	if c.Buffer == nil {
		c.Buffer = &Buffer{}
	}
	b := c.Buffer
	a := &b.args
	a.begin(scripts.Take, len(c.Limits))
	for _, l := range c.Limits {
		a.all = append(a.all, l.keys[scripts.KeyState])
	}
	a.text("")
	a.number(c.Way.Microseconds())
	a.number(c.Horizon.Microseconds())
	a.text(c.Process)
	a.number(c.Serial)
	b.heads, b.known, b.answers = b.heads[:0], b.known[:0], b.answers[:0]
	var g group
	for i, l := range c.Limits {
		item := &items[i]
		known, idle := "", item.simple(i) && (c.Back == nil || c.Back[i] == "")
		if idle {
			known, idle = l.tellIdle(a, &g, c, item)
		}
		if !idle {
			return Reply{}, nil, false, nil
		}
		b.known = append(b.known, known)
		switch {
		case item.Now:
			a.number(0)
		case item.Latest.IsZero():
			a.text("")
		default:
			a.number(item.Latest.Sub(c.Now).Microseconds())
		}
	}
	g.end(a)
	values, err := c.once(ctx, scripts.Take, a.all, len(c.Limits))
	if err != nil {
		c.Buffer = nil
		return reply, nil, true, err
	}
	r := &b.reader
	*r = reader{values: values}
	reply.Micros = r.number()
	for i := range items {
		version, last := r.number(), r.number()
		if version < 0 {
			b.heads, b.answers = append(b.heads, head{}), append(b.answers, Answers{})
			continue
		}
		b.heads = append(b.heads, head{version: version, reach: strconv.FormatInt(last, 10)})
		b.answers = append(b.answers, c.turns(&items[i], last))
	}
	reply.heads, reply.known = b.heads, b.known
	return reply, b.answers, true, r.err
}

// simple reports whether script take knows how to answer the item, if that needs the limit of an index.
func (item *Item) simple(limit int) bool {
	const simple = asksNow | asksOfFlow | asksWithin
	return item.how()&^simple == 0 && len(item.Parts) == 1 && item.Parts[0].Limit == limit && item.Parts[0].Tag == 0
}

// next lets the item be one of the group, or begins another group if it differs.
func (g *group) next(a *args, l *Limit, item *Item) {
	cost := item.Parts[0].Cost
	if g.size == 0 || g.a != l.a || g.b != l.b || g.count != item.Count || g.cost != cost {
		g.end(a)
		*g = group{a: l.a, b: l.b, count: item.Count, cost: cost, first: a.more(1)}
		a.text(l.a)
		a.text(l.b)
		a.number(int64(item.Count))
		a.number(cost)
	}
	g.size++
}

// end tells the script how many limits the group has.
func (g *group) end(a *args) {
	if g.size > 0 {
		a.setNumber(g.first, int64(g.size))
	}
}

// tellIdle adds the arguments of the limit for script take, and returns its known text. It reports false if calls
// of that cost have to ask in full, as far as is known.
func (l *Limit) tellIdle(a *args, g *group, c *Call, item *Item) (known string, idle bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.calm || !l.kind.Refills || float64(item.Parts[0].Cost) > l.B || !c.Lost.Before(l.heard) || !l.isMine(c.Run) || !l.has(c, item) {
		return "", false
	}
	g.next(a, l, item)
	a.text(l.known)
	a.number(l.version)
	a.number(l.clock(c.Now))
	a.terms = append(a.terms, inForce{l.A, l.B})
	return l.known, true
}

// isMine reports whether the limit in force is that of this process, on the server with a run ID. The limit must
// be locked.
func (l *Limit) isMine(run string) bool {
	if run == "" {
		run = "-"
	}
	rest := l.known
	for _, word := range [...]string{l.b, l.a, l.Kind, run} {
		before, found := strings.CutSuffix(rest, word)
		after, apart := strings.CutSuffix(before, " ")
		if !found || !apart {
			return false
		}
		rest = after
	}
	return true
}

// has reports whether the calls of an item could have their turns at once, by the last reply. The limit must
// be locked.
func (l *Limit) has(c *Call, item *Item) bool {
	free, err := strconv.ParseInt(l.reach, 10, 64)
	least := max(float64(free-c.Now.Sub(l.heard).Microseconds()), -l.A*l.B)
	ahead := c.Horizon
	if item.Now {
		ahead = 0
	}
	return err == nil && least+float64(int64(item.Count)*item.Parts[0].Cost)*l.A <= float64(ahead.Microseconds())
}

// askRest asks in full for the items that script take has not answered.
func (c *Call) askRest(ctx context.Context, items []Item, taken Reply, answers []Answers) (Reply, []Answers, error) {
	heads, answers := slices.Clone(taken.heads), slices.Clone(answers)
	var rest []Item
	for i := range items {
		if answers[i].Count == 0 {
			rest = append(rest, items[i])
		}
	}
	reply, more, err := c.ask(ctx, rest)
	c.Sent = time.Time{} // what happened to limits since the first request concerns the taken turns
	if err != nil {
		return reply, nil, err
	}
	later := reply.Micros - taken.Micros // all times count from the later reply
	for i := range answers {
		if answers[i].Count == 0 {
			answers[i], more = more[0], more[1:]
			continue
		}
		answers[i].last -= float64(later)
		reply.heads[i] = heads[i]
		reply.heads[i].reach = strconv.FormatInt(int64(answers[i].last), 10)
	}
	return reply, answers, nil
}
