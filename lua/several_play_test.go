package lua

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// onClock is a script whose time is its first argument, in micros.
func onClock(text string) *redis.Script {
	return redis.NewScript("local micros = tonumber(table.remove(ARGV, 1))\n" +
		strings.ReplaceAll(text, "redis.call('TIME')", "{ math.floor(micros / 1000000), micros % 1000000 }"))
}

// severalScripts are the verbs that calls of several limits use, and those of one.
type severalScripts struct{ turn, leave, settle, take, claim, cancel *redis.Script }

func severalOf(line, several string) severalScripts {
	return severalScripts{
		onClock(line + several + turn), onClock(line + several + leave), onClock(line + several + settle),
		onClock(line + take), onClock(line + claim), onClock(line + cancel),
	}
}

// A meter is a limit of a history, of any kind.
type meter struct {
	kind     string
	keys     []string
	interval float64 // micros; of paced and warming
	permits  int64   // the burst, or those of a window
	window   int64   // micros; of quota, rolling, or the period of warming
	known    string
	head     []int64 // of a paced one
	calls    []severalCall
}

type severalCall struct {
	at   int64
	cost int64
}

func (m *meter) args(now int64) []any {
	switch m.kind {
	case "paced":
		reach, epoch, seen := int64(-1e15), int64(0), int64(0)
		if m.head != nil {
			reach, epoch, seen = m.head[2]-(now-m.head[1]), m.head[0], m.head[1]
		}
		return []any{m.interval, m.permits, reach, epoch, seen, 0, "", 0}
	case "quota":
		first := now - now%m.window - m.window
		return []any{m.permits, 0, m.known, first, first + m.window, first + 2*m.window, first + 3*m.window, first + 4*m.window}
	case "rolling":
		return []any{m.permits, m.window, m.known}
	default:
		return []any{m.interval, m.window, m.known}
	}
}

// judge returns how many calls a strict provider of the same kind refuses.
func (m *meter) judge() int {
	slices.SortStableFunc(m.calls, func(a, b severalCall) int { return cmp.Compare(a.at, b.at) })
	const grains = 1e6
	size := 1
	var rule provider.Rule
	switch m.kind {
	case "quota":
		rule = provider.FixedWindow(int(m.permits), time.Duration(m.window)*time.Microsecond)
	case "rolling":
		rule = provider.RollingWindow(int(m.permits), time.Duration(m.window)*time.Microsecond)
	default:
		size = grains // what is rounded up to a microsecond is forgiven, as in judge
		rule = provider.TokenBucket(grains*1e6/m.interval, int(float64(m.permits)*grains+math.Ceil(4/m.interval*grains)))
	}
	p, refused := provider.New(rule), 0
	for _, c := range m.calls {
		if c.cost == 0 {
			continue
		}
		if ok, _ := p.JudgeAt(time.UnixMicro(c.at).UTC(), int(c.cost)*size); !ok {
			refused++
		}
	}
	return refused
}

// A caller makes one call.
type severalCaller struct {
	id     string
	limits []int
	costs  []int64
	alone  bool // it takes a turn of a single line, by take and claim
	waits  bool
	turn   int64 // of a final one
	until  int64
	final  bool
	done   bool
	gone   bool
	asks   int
}

type severalEvent struct {
	at int64
	do func()
}

type severalEvents []severalEvent

func (e severalEvents) Len() int           { return len(e) }
func (e severalEvents) Less(i, j int) bool { return e[i].at < e[j].at }
func (e severalEvents) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *severalEvents) Push(x any)        { *e = append(*e, x.(severalEvent)) }
func (e *severalEvents) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// severalHistory is a random history of calls of several limits.
type severalHistory struct {
	*rand.Rand
	scripts severalScripts
	client  *redis.Client
	now     int64
	bound   int64
	limits  []*meter
	callers []*severalCaller
	events  severalEvents
	settles bool
	log     []string
	err     error
}

func newSeveralHistory(t testing.TB, seed uint64, scripts severalScripts, client *redis.Client) *severalHistory {
	h := &severalHistory{Rand: rand.New(rand.NewPCG(seed, 6)), scripts: scripts, client: client}
	h.now = 1_700_000_000_000_000 + h.Int64N(1e12)
	h.bound = []int64{1e6, 1e6, 2e5, 0}[h.IntN(4)]
	h.settles = h.IntN(3) == 0
	prefix := redistest.Prefix(t)
	for i := range 1 + h.IntN(4) {
		h.limits = append(h.limits, h.newMeter(Keys(prefix, fmt.Sprint("h", seed), fmt.Sprint(i))))
	}
	var combinations [][]int
	for range 1 + h.IntN(3) {
		var c []int
		for i := range h.limits {
			if h.IntN(3) > 0 {
				c = append(c, i)
			}
		}
		if len(c) == 0 {
			c = []int{h.IntN(len(h.limits))}
		}
		h.Shuffle(len(c), func(a, b int) { c[a], c[b] = c[b], c[a] })
		combinations = append(combinations, c)
	}
	gap := math.Exp(h.Float64()*6 + 8) // 3 ms to 1.2 s
	at := h.now
	for i := range 15 + h.IntN(40) {
		c := &severalCaller{id: fmt.Sprint("c", i), limits: combinations[h.IntN(len(combinations))]}
		if single := h.IntN(len(h.limits)); h.limits[single].kind == "paced" && h.IntN(5) == 0 {
			c.alone, c.limits = true, []int{single}
		}
		for _, l := range c.limits {
			cost := int64(1)
			if h.IntN(3) == 0 {
				cost = 1 + h.Int64N(min(h.limits[l].permits, 12))
			}
			c.costs = append(c.costs, cost)
		}
		h.callers = append(h.callers, c)
		if h.IntN(10) > 0 {
			at += int64(h.ExpFloat64() * gap)
		}
		if h.IntN(25) == 0 {
			at += h.Int64N(20e6)
		}
		h.plan(at, func() { h.ask(c) })
	}
	return h
}

func (h *severalHistory) newMeter(keys []string) *meter {
	m := &meter{keys: keys, kind: []string{"paced", "paced", "paced", "quota", "rolling", "warming"}[h.IntN(6)]}
	switch m.kind {
	case "paced":
		m.interval = math.Exp(h.Float64()*6+6) * []float64{1, 1.0 / 3}[h.IntN(2)]
		if h.IntN(2) == 0 {
			m.interval = math.Ceil(m.interval)
		}
		m.permits = []int64{1, 1, 2, 5, 20}[h.IntN(5)]
	case "quota":
		m.permits, m.window = 1+h.Int64N(20), []int64{1e6, 2e6, 10e6, 60e6}[h.IntN(4)]
	case "rolling":
		m.permits, m.window = 1+h.Int64N(20), 1e5+h.Int64N(10e6)
	case "warming":
		m.interval, m.permits, m.window = math.Ceil(math.Exp(h.Float64()*4+8)), 12, 1e5+h.Int64N(5e6)
	}
	return m
}

func (h *severalHistory) plan(at int64, do func()) { heap.Push(&h.events, severalEvent{at, do}) }

func (h *severalHistory) play() {
	for steps := 0; h.events.Len() > 0 && h.err == nil; steps++ {
		if steps > 20000 {
			h.err = fmt.Errorf("no end")
			return
		}
		e := heap.Pop(&h.events).(severalEvent)
		h.now = max(h.now, e.at)
		e.do()
	}
}

func (h *severalHistory) run(c *severalCaller, script *redis.Script, keys []string, args ...any) []any {
	reply, err := script.Run(context.Background(), h.client, keys, append([]any{h.now}, args...)...).Slice()
	if err != nil && h.err == nil {
		h.err = fmt.Errorf("%s at %d: %w", c.id, h.now, err)
	}
	h.log = append(h.log, fmt.Sprint(h.now, " ", c.id, " ", c.limits, c.costs, " ", reply))
	return reply
}

func (h *severalHistory) group(c *severalCaller, spent []int64) (keys []string, args []any) {
	for i, l := range c.limits {
		m := h.limits[l]
		own, actual, at := m.args(h.now), int64(-1), int64(0)
		if h.settles && !c.alone {
			actual = 0
		}
		if spent != nil {
			actual, at = spent[i], c.turn
		}
		keys = append(keys, m.keys...)
		args = append(append(args, m.kind, c.costs[i], actual, at, len(own)), own...)
	}
	return keys, args
}

func (h *severalHistory) ask(c *severalCaller) {
	if c.gone || c.done {
		return
	}
	if c.asks++; c.asks > 300 {
		h.err = fmt.Errorf("%s asks forever", c.id)
		return
	}
	if c.alone {
		h.askAlone(c)
		return
	}
	most := int64(-1)
	if c.asks == 1 && h.IntN(8) == 0 {
		most = h.Int64N(5e6)
	}
	keys, args := h.group(c, nil)
	reply := h.run(c, h.scripts.turn, keys, append([]any{h.bound, most, c.id}, args...)...)
	if h.err != nil {
		return
	}
	for i, l := range c.limits {
		info := reply[5+i].([]any)[1]
		if head, ok := info.([]any); ok {
			h.limits[l].head, _ = ints(head)
		} else {
			h.limits[l].known = info.(string)
		}
	}
	h.answered(c, reply[1].(int64), reply[2].(int64), reply[3].(int64))
}

func (h *severalHistory) askAlone(c *severalCaller) {
	m := h.limits[c.limits[0]]
	script, args := h.scripts.claim, []any{h.bound, c.costs[0], c.id}
	if c.asks == 1 {
		script, args = h.scripts.take, []any{h.bound, c.costs[0], -1, c.id, 1}
	}
	reply := h.run(c, script, m.keys, append(m.args(h.now), args...)...)
	if h.err != nil {
		return
	}
	values, err := ints(reply)
	if err != nil {
		h.err = err
		return
	}
	m.head = values[:HeadLength]
	t := values[HeadLength:]
	h.answered(c, t[0], t[2], 0)
}

func (h *severalHistory) answered(c *severalCaller, status, wait, slack int64) {
	switch status {
	case 0:
		c.gone = true
	case 1:
		c.turn, c.until, c.final = h.now+wait, h.now+wait+slack, true
		switch p := h.IntN(20); {
		case p == 0: // it leaves before
			h.plan(h.now+h.Int64N(wait+1), func() { h.leave(c) })
		case p == 1: // it sleeps, and asks again
			h.plan(c.until+1+h.Int64N(3e6), func() { c.final = false; h.ask(c) })
		case p == 2: // its reply was lost
			h.plan(h.now+h.Int64N(wait+1), func() { h.ask(c) })
		case p == 3: // it died
			c.gone = true
		case p < 6: // a little late
			h.plan(c.turn+h.Int64N(min(slack, 1e6)+1), func() { h.call(c) })
		default:
			h.plan(c.turn, func() { h.call(c) })
		}
	case 2:
		c.waits = true
		switch h.IntN(30) {
		case 0:
			c.gone = true
		case 1:
			h.plan(h.now+h.Int64N(wait+1), func() { h.leave(c) })
		case 2:
			h.plan(h.now+wait+h.Int64N(2e6), func() { h.ask(c) })
		default:
			h.plan(h.now+max(wait-h.bound/2, 1000), func() { h.ask(c) })
		}
	default:
		h.err = fmt.Errorf("%s: status %d", c.id, status)
	}
}

func (h *severalHistory) leave(c *severalCaller) {
	if c.done {
		return
	}
	c.gone = true
	if c.alone {
		m := h.limits[c.limits[0]]
		h.run(c, h.scripts.cancel, m.keys, append(m.args(h.now), c.costs[0], c.id, 0, 0)...)
		return
	}
	keys, args := h.group(c, nil)
	h.run(c, h.scripts.leave, keys, append([]any{c.id}, args...)...)
}

func (h *severalHistory) call(c *severalCaller) {
	if c.gone || c.done {
		return
	}
	c.done = true
	spent := slices.Clone(c.costs)
	settle := h.settles && !c.alone && h.IntN(2) == 0
	if settle {
		for i := range spent {
			spent[i] = h.Int64N(spent[i] + 1)
		}
	}
	for i, l := range c.limits {
		h.limits[l].calls = append(h.limits[l].calls, severalCall{h.now, spent[i]})
	}
	if settle {
		h.plan(h.now+h.Int64N(3e6), func() {
			keys, args := h.group(c, spent)
			h.run(c, h.scripts.settle, keys, append([]any{c.id}, args...)...)
		})
	}
}

// check says what is wrong with a history that was played.
func (h *severalHistory) check() error {
	if h.err != nil {
		return h.err
	}
	for i, m := range h.limits {
		if refused := m.judge(); refused > 0 {
			return fmt.Errorf("limit %d, %s (interval %v, permits %d, window %d): refused %d of %d",
				i, m.kind, m.interval, m.permits, m.window, refused, len(m.calls))
		}
	}
	for _, c := range h.callers {
		if !c.done && !c.gone {
			return fmt.Errorf("%s was never called: %+v", c.id, c)
		}
	}
	return nil
}
