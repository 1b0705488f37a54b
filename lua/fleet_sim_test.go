package lua

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// simulation is a fleet in simulated time on the real scripts: callers that ask, wait until a
// lead before their forecast, ask again, and call a strict provider as their turn comes.
type simulation struct {
	*testing.T
	*rand.Rand
	client    *redis.Client
	server    *server
	limits    []queuemodel.Limit
	providers []*bucket
	rtt       float64
	now       float64
	events    events
	count     int
	asks      int
	turns     []float64 // permits, by limit
	refused   int
	numbers   int
	waiting   map[int][]*simCall // by process
	known     map[int][]queuemodel.Limit
	dead      map[int]bool
}

const (
	simLead = 100000.0
	simNear = 5000.0
)

type simEvent struct {
	at   float64
	n    int
	call func()
}

type events []simEvent

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].n < e[j].n
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(simEvent)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

type simCall struct {
	process, number int
	parts           []queuemodel.Part
	when            float64
	timer           int
	over            bool
	born            float64
	done            func(*simCall)

	// Of a call with an ID:
	id       string
	patience float64
	comings  int
	told     float64 // when it is to be back, by its first answer; 0: it was not booked
	gone     bool    // it never comes back
}

// still is a Redis in which no key expires: its time is not the one that is simulated, and a
// machine may take longer for a simulation than keys live.
func still(t *testing.T) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func newSimulation(t *testing.T, rtt float64, limits ...queuemodel.Limit) *simulation {
	client := still(t)
	s := &simulation{
		T: t, Rand: rand.New(rand.NewPCG(1, 2)), client: client, limits: limits, rtt: rtt, now: startMicros,
		turns: make([]float64, len(limits)), waiting: map[int][]*simCall{}, known: map[int][]queuemodel.Limit{}, dead: map[int]bool{},
	}
	prefix := redistest.Prefix(t)
	var keys []string
	for j, l := range limits {
		keys = append(keys, Keys(prefix, "", "api", l.Kind, strconv.Itoa(j))...)
		s.providers = append(s.providers, &bucket{kind: l.Kind, a: l.A, b: l.B, tat: startMicros - 1e12})
	}
	s.server = serverOf(t.Context(), client, keys)
	return s
}

func (s *simulation) after(micros float64, call func()) {
	s.count++
	heap.Push(&s.events, simEvent{s.now + micros, s.count, call})
}

func (s *simulation) run(seconds float64) {
	for len(s.events) > 0 && s.events[0].at < startMicros+seconds*second {
		e := heap.Pop(&s.events).(simEvent)
		s.now = e.at
		e.call()
	}
}

func name(process int) string { return "p" + strconv.Itoa(process) }

func (s *simulation) alive(c *simCall) bool { return !c.over && !s.dead[c.process] }

func (s *simulation) call(process int, parts []queuemodel.Part, done func(*simCall)) *simCall {
	s.numbers++
	c := &simCall{process: process, number: s.numbers, parts: slices.Clone(parts), born: s.now, done: done}
	s.ask(c)
	return c
}

// identified is a call with an ID. One that is booked comes back, to another process, half a
// second before the moment that it was told.
func (s *simulation) identified(process int, patience float64, done func(*simCall)) *simCall {
	s.numbers++
	c := &simCall{process: process, number: s.numbers, parts: single(1)(), born: s.now, done: done,
		id: "id" + strconv.Itoa(s.numbers), patience: patience, comings: 1}
	s.ask(c)
	return c
}

func (s *simulation) booked(c *simCall, when float64) {
	if c.told == 0 {
		c.told = when
	}
	c.timer++
	s.after(max(0, when-second/2-s.now), func() {
		if c.gone {
			return
		}
		s.numbers++
		c.process, c.number, c.parts, c.comings = (c.process+1)%4, s.numbers, single(1)(), c.comings+1
		c.patience, c.when = max(c.patience, 1.5*second), 0
		s.ask(c)
	})
}

func (s *simulation) caller(process int) queuemodel.Caller {
	return queuemodel.Caller{
		Now: float64(int64(s.now)), Way: s.rtt / 2, Horizon: 250000, Near: simNear, Grace: 300000,
		Run: "run", Process: name(process), Serial: s.numbers + s.asks,
	}
}

func (s *simulation) knows(process int) []queuemodel.Limit {
	if s.known[process] == nil {
		s.known[process] = slices.Clone(s.limits)
	}
	known := slices.Clone(s.known[process])
	for j := range known {
		if known[j].Kind == "q" {
			first := float64(int64(s.now/windowMicros)) * windowMicros
			for k := range 4 {
				known[j].Edges = append(known[j].Edges, first+float64(k)*windowMicros)
			}
		}
	}
	return known
}

func (s *simulation) learn(process int, heads []queuemodel.Head) {
	for j, head := range heads {
		if head.Text != "" {
			s.known[process][j].Known = head.Text
			if head.Text[0] == '~' {
				s.known[process][j].Known = head.Text[1:]
			}
		}
	}
}

func (s *simulation) ask(c *simCall) {
	if !s.alive(c) {
		return
	}
	s.asks++
	s.after(s.rtt/2, func() {
		if !s.alive(c) {
			return
		}
		heads, answers, err := s.server.Ask(s.caller(c.process), s.knows(c.process), []queuemodel.Item{
			{Count: 1, Number: c.number, Parts: c.parts, ID: c.id, Patience: c.patience, Latest: never},
		})
		require.NoError(s, err)
		s.learn(c.process, heads)
		s.after(s.rtt/2, func() { s.reply(c, answers[0]) })
	})
}

func (s *simulation) reply(c *simCall, a queuemodel.Answer) {
	if !s.alive(c) {
		return
	}
	require.NotEqual(s, 2, a.Status)
	mine := s.waiting[c.process]
	when := s.now + a.Wait
	if a.Status == 3 {
		s.waiting[c.process] = slices.DeleteFunc(mine, func(o *simCall) bool { return o == c })
		s.booked(c, when)
		return
	}
	if a.Status == 0 {
		for i := range c.parts {
			c.parts[i].Tag = a.Tags[i]
		}
		if !slices.Contains(mine, c) {
			s.waiting[c.process] = append(mine, c)
		}
		c.when = when
		s.wake(c)
		return
	}
	s.waiting[c.process] = slices.DeleteFunc(mine, func(o *simCall) bool { return o == c })
	if early := c.when - when; c.when > 0 && early > 0 { // so it is for the others here
		for _, o := range s.waiting[c.process] {
			if len(o.parts) == len(c.parts) && o.parts[0].Limit == c.parts[0].Limit {
				o.when -= early
				s.wake(o)
			}
		}
	}
	c.timer++
	s.after(max(0, when-s.now), func() { s.make(c) })
}

func (s *simulation) wake(c *simCall) {
	c.timer++
	timer := c.timer
	lead := simLead
	if len(c.parts) > 1 && c.when-s.now < 1.1*simLead { // it was too early for its other limits
		lead = 0.6*simNear + s.rtt/2
	}
	s.after(max(1000, c.when-lead-s.now), func() {
		if timer == c.timer {
			s.ask(c)
		}
	})
}

func (s *simulation) make(c *simCall) {
	if !s.alive(c) {
		return
	}
	c.over = true
	for _, p := range c.parts {
		if s.providers[p.Limit].judge(event{at: s.now, cost: p.Cost}) != nil {
			s.refused++
		}
		s.turns[p.Limit] += p.Cost
	}
	if c.done != nil {
		c.done(c)
	}
}

// giveUp leaves the place; news of it reach all who stand behind it.
func (s *simulation) giveUp(c *simCall) {
	if !s.alive(c) {
		return
	}
	c.over = true
	s.waiting[c.process] = slices.DeleteFunc(s.waiting[c.process], func(o *simCall) bool { return o == c })
	s.after(s.rtt/2, func() {
		for _, p := range c.parts {
			heads, left, err := s.server.Leave(s.caller(c.process), s.knows(c.process), p.Limit, "place", strconv.Itoa(c.number), p.Cost, nil)
			require.NoError(s, err)
			s.learn(c.process, heads)
			if left == 0 || s.limits[p.Limit].Kind != "p" {
				continue
			}
			s.after(s.rtt/2, func() {
				for _, calls := range s.waiting {
					for _, o := range calls {
						if o.parts[0].Limit == p.Limit && len(o.parts) == 1 && o.parts[0].Tag > p.Tag {
							o.when -= p.Cost * s.limits[p.Limit].A
							s.wake(o)
						}
					}
				}
			})
		}
	})
}

// kill ends a process; 3 seconds later a heartbeat of another one finds that out.
func (s *simulation) kill(process int) {
	s.dead[process] = true
	s.waiting[process] = nil
	s.after(3*second, func() {
		require.NoError(s, s.client.ZAdd(s.Context(), s.server.keys[3], redis.Z{Score: -s.now, Member: name(process)}).Err())
		for _, calls := range s.waiting {
			for _, c := range calls {
				c.timer++
				s.ask(c)
			}
		}
	})
}

// closed keeps callers of a process busy: each makes one call after the other.
func (s *simulation) closed(process, callers int, parts func() []queuemodel.Part, cancel float64) {
	var again func()
	again = func() {
		if s.dead[process] {
			return
		}
		quits := s.Float64() < cancel
		c := s.call(process, parts(), func(*simCall) { again() })
		if quits {
			s.after(s.Float64()*2*second, func() {
				if !c.over {
					s.giveUp(c)
					again()
				}
			})
		}
	}
	for range callers {
		s.after(s.Float64()*10000, again)
	}
}
