package world

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/fleetpace/fleetpace/internal/engine"
	"github.com/fleetpace/fleetpace/internal/wire"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// client is the engine of a process, and does what engine.Process does elsewhere: the schedule is its
// clock, and the link is its connection.
type client struct {
	*process
	world  *world
	engine *engine.Engine
	redis  *redis.Client // over the link: see errand
	limits map[part]*wire.Limit
	names  map[string]*wire.Name
	plans  map[part]planned // what the process knows of them, by limit and key
	calls  map[*engine.Call]*call
	joined map[*call]*engine.Call
	held   []*call // calls that hold slots, in the order of their turns
	rings  time.Time
	told   []wire.Used              // reports that wait for the next trip …
	toldOf []*wire.Limit            // … and the limits of each of them …
	tells  time.Time                // … and when it may begin
	ear    *ear                     // the connection that hears news; nil: none
	wanted bool                     // whether the engine wants news
	asks   map[*engine.Batch]flight // the asks in flight
	runs   map[int64]*run           // the asks of waiting calls, by the numbers of their places
	newsAt time.Duration            // when it last heard news
}

const prefix, dead = reserve.DefaultPrefix, 3 * time.Second

// brisk says when processes take permits ahead. Histories have few calls, so they do it much sooner than elsewhere,
// and take more.
var brisk = engine.Brisk{Demand: 100, Lease: 100 * time.Millisecond, Used: 4}

func newClient(w *world, p *process) *client {
	m := &client{process: p, world: w, limits: map[part]*wire.Limit{}, names: map[string]*wire.Name{}, plans: map[part]planned{}, calls: map[*engine.Call]*call{}, joined: map[*call]*engine.Call{}, asks: map[*engine.Batch]flight{}, runs: map[int64]*run{}}
	m.redis = redis.NewClient(&redis.Options{MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})
	if p.version != "" { // this hook is called first
		m.redis.AddHook(m.versioned())
	}
	m.redis.AddHook(over{p.link})
	policies := map[reserve.Policy]engine.Away{
		reserve.PolicyWait: engine.AwayWait, reserve.PolicyLocal: engine.AwayLocal, reserve.PolicyFail: engine.AwayFail, reserve.PolicyOpen: engine.AwayOpen,
	}
	m.engine = engine.New(engine.Config{
		Process: fmt.Sprintf("process%d", p.n), Channel: w.channel(), Dead: dead,
		Away: policies[w.plan.policy], Failures: 3, Probe: 500 * time.Millisecond, Share: m.share,
		Protocol: p.protocol(),
		Brisk:    brisk,
		Self:     wire.Report{Host: "played", PID: p.n, Started: m.time().Unix(), Policy: string(w.plan.policy)},
		Random:   w.plan.source("engine", p.n).Float64,
		Errors: engine.Errors{
			Closed: reserve.ErrClosed, Cancelled: reserve.ErrCancelled, Away: reserve.ErrUnavailable,
			Kind: func(*wire.Name, *wire.Ruling) error { return errKind },
			Missed: func(turn, deadline time.Time, _ int) error {
				return fmt.Errorf("%w: by %v", reserve.ErrWouldMissDeadline, turn.Sub(deadline))
			},
			Stopped: func(l *wire.Limit, s *wire.Stopped) error {
				return fmt.Errorf("%w: %s: %s", reserve.ErrExhausted, l.Name.Text, s.Reason)
			},
		},
	})
	return m
}

var errKind = fmt.Errorf("%w: another kind is in force", reserve.ErrInvalid)

// share returns how much of a limit the process may use without Redis.
func (m *client) share(l *wire.Limit) (perSecond float64, burst int) {
	part := 0.1
	if alive := l.Name.Alive.Load(); alive > 0 {
		counted := 0.9 / float64(alive)
		if part = min(part, counted); !l.Name.Fewer.Load() {
			part = counted
		}
	}
	perSecond, most := l.Pace(m.time())
	return perSecond * part, max(1, int(most*part))
}

// limit returns the limit of a part, under its key.
func (m *client) limit(p part) *wire.Limit {
	p.cost = 0
	l := m.limits[p]
	if l != nil {
		m.lookUp(p, l)
		return l
	}
	plan := m.world.plan.limits[p.limit]
	if m.strange && m.other == p.limit {
		plan.limit = m.kind
	}
	terms, group := termsOf(plan.limit), m.world.plan.group()
	name := m.names[plan.name]
	if name == nil {
		keys := lua.BeatKeys(prefix, group, plan.name)
		name = &wire.Name{
			Life: keys[:2], Keys: keys[2:], Kind: terms.Kind, Pace: plan.limit.Rate(), Limit: plan.limit.String(),
			Text: plan.name, Index: lua.Index(prefix), Field: lua.Indexed(group, plan.name),
		}
		m.names[plan.name] = name
	}
	l = wire.NewLimit(terms, lua.Keys(prefix, group, plan.name, terms.Kind, p.key), name)
	l.Key, l.Lease, l.Plans = p.key, plan.lease, m.world.plan.isPlanned(p.limit)
	m.limits[p] = l
	m.lookUp(p, l)
	return l
}

// planned is a version of a plan.
type planned struct {
	wire.Terms
	version int64
}

// lookUp is what package reserve does with Config.LimitOf.
func (m *client) lookUp(p part, l *wire.Limit) {
	if known := m.plans[p]; known.version > 0 {
		l.Plan(known.Terms, known.version)
	}
}

// replan looks up the plans of limits at which calls wait.
func (m *client) replan(limits []*wire.Limit) {
	var news []*wire.Limit
	for _, l := range limits {
		n := slices.IndexFunc(m.world.plan.limits, func(of limitPlan) bool { return of.name == l.Name.Text })
		if m.lookUp(part{limit: n, key: l.Key}, l); l.Unsaid() {
			news = append(news, l)
		}
	}
	if len(news) > 0 {
		m.step(func(now time.Time) { m.engine.Planned(now, news) })
	}
}

// termsOf returns a limit as the scripts know it, in the way in which package reserve passes it to them.
func termsOf(l reserve.Limit) wire.Terms {
	t := wire.Terms{Kind: wire.Kinds[l.Kind()].Letter, A: 1e6 / l.Rate(), B: float64(l.MaxBurst())}
	switch l.Kind() {
	case reserve.KindWarmingUp:
		t.B = float64(warmUpOf(l).Microseconds())
	case reserve.KindQuota:
		_, calendar, _ := strings.Cut(l.String(), "/")
		calendar, _, _ = strings.Cut(calendar, " ")
		t.Calendar = calendar + "/UTC"
		t.A, t.B, t.Edges = float64(l.MaxBurst()), 0, func(micros int64) (edges []int64) {
			begin, _ := l.Window(time.UnixMicro(micros))
			begin, end := l.Window(begin.Add(-time.Microsecond))
			for edges = append(edges, begin.UnixMicro()); len(edges) < 5; _, end = l.Window(end) {
				edges = append(edges, end.UnixMicro())
			}
			return edges
		}
	case reserve.KindRolling:
		t.A, t.B, t.Late = float64(l.MaxBurst()), float64(windowOf(l).Microseconds()), lateOf(l).Microseconds()
	case reserve.KindSlots:
		t.A, t.B = float64(l.MaxBurst()), 1
	}
	return t
}

// keys returns the keys in Redis that a limit has for a key.
func (p *plan) keys(n int, key string) []string {
	l := &p.limits[n]
	return lua.Keys(prefix, p.group(), l.name, wire.Kinds[l.limit.Kind()].Letter, key)
}

// group returns the group of the limits if calls may need several at once.
func (p *plan) group() string {
	if len(p.limits) > 1 {
		return "fleet"
	}
	return ""
}

// channel returns the channel of the news.
func (w *world) channel() string { return lua.Channel(prefix, w.plan.group(), w.plan.limits[0].name) }

func (m *client) time() time.Time { return m.world.began.Add(m.now) }

// step passes an event to the engine, and does what the engine has ready then.
func (m *client) step(event func(now time.Time)) {
	if m.dead {
		return
	}
	now := m.time()
	event(now)
	m.ready(now)
}

func (m *client) ready(now time.Time) {
	var r engine.Ready
	m.engine.Ready(now, &r)
	if m.wanted = r.Listen; m.wanted && m.ear == nil {
		m.listen(0)
	}
	if !r.Next.IsZero() && (m.rings.IsZero() || r.Next.Before(m.rings)) {
		next := r.Next
		m.rings = next
		m.here(next.Sub(now), func() {
			if m.rings.Equal(next) {
				m.rings = time.Time{}
				m.step(func(time.Time) {})
			}
		})
	}
	m.wake(r.Wake)
	for _, b := range r.Send {
		m.drive(b)
	}
	for _, e := range r.Tell {
		switch {
		case e.What == engine.Planning:
			m.replan(e.Limits)
		case e.What == engine.Voided && m.world.plan.remembers() == 1:
			for _, p := range append([]engine.Part{e.Need.Part}, e.Need.More...) {
				if of := m.world.byState[p.Limit.Keys[0]]; of.plan.limit.Kind() == reserve.KindQuota {
					of.gone += float64(int64(e.N) * p.Cost)
				}
			}
		case e.What == engine.Moved && m.world.plan.has(hardStop):
			m.logStops()
		}
	}
}

// drive sends a batch, and passes its outcome to the engine.
func (m *client) drive(b *engine.Batch) {
	m.errand(func(ctx context.Context) {
		m.sends(b)
		result, err := b.Execute(ctx, m.redis, m.time)
		m.hasSent(b, err)
		m.step(func(now time.Time) {
			if err != nil {
				m.engine.Failed(now, b, err)
			} else {
				m.engine.Reply(now, b, &result)
			}
			if b.Over() { // a caller whose call had its turn may start another call in time for the next batch
				var r engine.Ready
				m.engine.Woken(&r)
				m.wake(r.Wake)
				m.engine.Free(b)
			}
		})
		m.lookForLost()
	})
}

// states asks for the states of all limits.
func (m *client) states(told func([]wire.State, error)) {
	var limits []*wire.Limit
	for i := range m.world.plan.limits {
		limits = append(limits, m.limit(part{limit: i}))
	}
	var all []wire.State
	m.try(limits, func(ctx context.Context, c *wire.Call) (reply wire.Reply, err error) {
		reply, all, err = wire.Inspect(ctx, c)
		return reply, err
	}, func(_ wire.Reply, err error) { told(all, err) })
}
