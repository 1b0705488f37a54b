package reserve_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// history is a plan at work.
type history struct {
	plan     *plan
	bug      bug
	log      *eventLog
	book     *book
	redis    *simRedis
	limiters []*reserve.Limiter
	clients  []*redis.Client
	ctx      context.Context // ends when calls are stuck

	mu       sync.Mutex
	served   []servedCall
	open     map[string]time.Duration // calls under way, and since when
	problems []string
}

// servedCall is a call that was made because it had its turn.
type servedCall struct {
	at   time.Duration
	cost int
	who  string
}

const (
	settled = 2 * time.Second        // after the last fault the fleet is back at its rate
	greedy  = 8                      // callers per history that have work from the last fault on
	hurry   = 300 * time.Millisecond // before that they always have
)

// play makes a history happen in a bubble of its own.
func play(t *testing.T, seed uint64, bug bug) *history {
	h := &history{plan: newPlan(seed), bug: bug, open: map[string]time.Duration{}}
	if bug.plan != nil {
		bug.plan(h.plan)
	}
	synctest.Test(t, h.run)
	return h
}

func (h *history) run(t *testing.T) {
	p := h.plan
	p.start = time.Now()
	h.log = &eventLog{start: p.start}
	h.book = newBook(p)
	var err error
	if h.redis, err = newSimRedis(h.log, lua.Keys(reserve.DefaultPrefix, "api", ""), h.book); err != nil {
		t.Fatal(err)
	}
	defer h.redis.redis.Close()
	h.redis.planted = h.bug.scripts
	network := &network{plan: p, redis: h.redis, log: h.log}
	for i := range p.request {
		h.join(t, network, i)
	}
	var stop context.CancelFunc
	h.ctx, stop = context.WithCancel(context.Background())
	for _, f := range p.faults {
		h.prepare(network, f)
	}
	var calls sync.WaitGroup
	for _, c := range p.callers {
		calls.Go(func() { h.work(c) })
	}
	from, until := p.window()
	for i := range greedy {
		calls.Go(func() { h.hurry(i, from-hurry, until) })
	}
	h.waitFor(&calls, stop)
	stop()
	for i, l := range h.limiters {
		_ = l.Close()
		_ = h.clients[i].Close()
	}
	h.check()
}

// join makes a process of the fleet.
func (h *history) join(t *testing.T, n *network, i int) {
	client := redis.NewClient(&redis.Options{
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return n.dial(ctx, i) },
		// An address that needs no look-up, and none of what the client asks a
		// real server about: both would leave the bubble.
		Addr:                     "127.0.0.1:6379",
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		DisableIdentity:          true,
		DialTimeout:              dialTime,
		ReadTimeout:              h.plan.timeout[i],
		WriteTimeout:             h.plan.timeout[i],
		PoolSize:                 10,
		// Retries of the client's own wait for a random time, which is not ours to
		// draw; scripts are called without.
		MaxRetries: -1,
	})
	if h.bug.call != nil {
		client.AddHook(spoiler(h.bug.call))
	}
	l, err := reserve.New(client, withPolicy(reserve.Config{
		Name: "api", Limit: reserve.PerSecond(h.plan.rate).Burst(h.plan.burst),
	}, h.plan.policy))
	if err != nil {
		t.Fatal(err)
	}
	l.TurnDeaf()
	l.SetMember(fmt.Sprintf("process-%d-%d", h.plan.seed, i))
	h.limiters, h.clients = append(h.limiters, l), append(h.clients, client)
}

// prepare lets a fault happen when its time has come.
func (h *history) prepare(n *network, f fault) {
	begin, end := func() {}, func() {}
	line := h.redis.keys
	m := h.redis.redis
	switch f.kind {
	case refusal:
		begin, end = func() { h.redis.refuse(f.text) }, func() { h.redis.refuse("") }
	case down:
		begin = func() { n.reset(-1) }
	case restart:
		begin = func() {
			n.reset(-1)
			h.redis.change(func() { m.FlushAll(); h.redis.forgetScripts() })
		}
	case rollBack:
		begin = func() { n.reset(-1); h.redis.rollBack(); h.redis.change(h.redis.forgetScripts) }
		lag := time.Duration(h.plan.random("lag").IntN(1000)) * time.Millisecond
		time.AfterFunc(max(0, f.from-lag), h.redis.save)
	case flush:
		begin = func() { h.redis.change(m.FlushAll) }
	case deleteState:
		begin = func() { h.redis.change(func() { m.Del(line[0]) }) }
	case deleteList:
		which := 1 + h.plan.random("list").IntN(len(line)-1)
		begin = func() { h.redis.change(func() { m.Del(line[which]) }) }
	case clockStep:
		begin = func() { h.redis.step(f.step) }
	case scriptFlush:
		begin = func() { h.redis.change(h.redis.forgetScripts) }
	}
	time.AfterFunc(f.from, func() {
		h.log.add("fault %s, process %d, until %v %s", f.kind, f.process, f.to, f.text)
		begin()
	})
	if f.to > f.from {
		time.AfterFunc(f.to, func() {
			h.log.add("fault %s is over", f.kind)
			end()
		})
	}
}

// window is when the fleet must be back at its rate: 30 permits long, or a quarter
// of a second. Under policy open a second's permits may have to be paid back first.
func (p *plan) window() (from, until time.Duration) {
	from = p.ends + settled
	if p.policy == "open" {
		from += time.Second
	}
	return from, from + max(30*p.interval(), 250*time.Millisecond)
}

// work is what a caller does while faults happen.
func (h *history) work(c caller) {
	random := h.plan.random("caller", c.number)
	_, until := h.plan.window()
	for i := range c.calls {
		next := c.starts + time.Duration(i)*c.apart + time.Duration(random.Float64()*float64(c.apart))
		if i == 0 {
			next = c.starts
		}
		time.Sleep(time.Until(h.plan.start.Add(next)))
		if time.Since(h.plan.start) > until {
			return // it has waited for so long that it is behind
		}
		h.call(c, fmt.Sprintf("c%d.%d", c.number, i), h.cost(random), random)
	}
}

// hurry makes one call after the other, from time to time at first: who does not
// call does not notice that Redis is back.
func (h *history) hurry(i int, busy, until time.Duration) {
	random := h.plan.random("greedy", i)
	c := caller{process: i % len(h.limiters), kind: "wait"}
	time.Sleep(time.Until(h.plan.start.Add(h.plan.ends)) + time.Duration(i)*30*time.Millisecond + nanos(random))
	for n := 0; time.Since(h.plan.start) < until && h.ctx.Err() == nil; n++ {
		h.call(c, fmt.Sprintf("g%d.%d", i, n), h.cost(random), random)
		pause := 10*time.Millisecond + nanos(random) // a call takes its time
		if left := busy - time.Since(h.plan.start); left > 0 {
			pause += min(left, 400*time.Millisecond)
		}
		time.Sleep(pause)
	}
}

func (h *history) cost(random *rand.Rand) int {
	return max(1, h.plan.burst-random.IntN(2*h.plan.burst))
}

// call makes one call, as its caller's kind does.
func (h *history) call(c caller, who string, cost int, random *rand.Rand) {
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	if random.Float64() < c.givesUp && time.Since(h.plan.start) < h.plan.ends {
		after := time.Duration(random.Float64()*float64(time.Second)) + nanos(random)
		if random.IntN(2) == 0 {
			ctx, cancel = context.WithTimeout(ctx, after)
			defer cancel()
		} else {
			defer time.AfterFunc(after, cancel).Stop()
		}
	}
	h.begin(who, c, cost)
	l := h.limiters[c.process]
	var err error
	served := false
	switch {
	case c.kind == "reserve" || h.bug.impatient:
		err = h.reserve(ctx, l, who, cost)
		served = err == nil
	case c.kind == "allow":
		served, err = l.AllowN(ctx, cost)
	default:
		err = l.WaitN(ctx, cost)
		served = err == nil
	}
	h.end(ctx, who, cost, served, err)
}

// reserve makes a call under an ID, and asks again as long as Redis is away.
func (h *history) reserve(ctx context.Context, l *reserve.Limiter, id string, cost int) error {
	pause := func() bool {
		select {
		case <-time.After(100 * time.Millisecond):
			return true
		case <-ctx.Done():
			return false
		}
	}
	r, err := l.ReserveAs(ctx, id, cost)
	for errors.Is(err, reserve.ErrUnavailable) && pause() {
		r, err = l.ReserveAs(ctx, id, cost)
	}
	if err != nil {
		return err
	}
	if h.bug.impatient {
		return nil
	}
	err = r.Wait(ctx)
	for errors.Is(err, reserve.ErrUnavailable) && pause() {
		err = r.Wait(ctx)
	}
	if err != nil && ctx.Err() != nil {
		_ = r.Cancel(context.Background()) // best effort: Redis may be away
	}
	return err
}

func (h *history) begin(who string, c caller, cost int) {
	h.log.add("call  %s p%d %s %d", who, c.process, c.kind, cost)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open[who] = time.Since(h.plan.start)
}

func (h *history) end(ctx context.Context, who string, cost int, served bool, err error) {
	h.log.add("done  %s %v %v", who, served, err)
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Since(h.plan.start)
	begun := h.open[who]
	delete(h.open, who)
	if served {
		h.served = append(h.served, servedCall{now, cost, who})
	}
	if took, bound := now-max(begun, h.plan.ends), h.plan.patience(); took > bound {
		h.fault("call %s took until %v, %v after the faults; the bound is %v", who, now, took, bound)
	}
	if err != nil && !typed(ctx, err) {
		h.fault("call %s: not a typed error: %v", who, err)
	}
	if policies && h.plan.policy == "wait" && errors.Is(err, reserve.ErrUnavailable) {
		h.fault("call %s did not wait for Redis: %v", who, err)
	}
}

// fault notes that a promise was broken. The history must be locked.
func (h *history) fault(format string, args ...any) {
	h.problems = append(h.problems, fmt.Sprintf(format, args...))
}

// waitFor waits for all calls. Those that are stuck are counted, and ended.
func (h *history) waitFor(calls *sync.WaitGroup, stop context.CancelFunc) {
	done := make(chan struct{})
	go func() { calls.Wait(); close(done) }()
	_, until := h.plan.window()
	select {
	case <-done:
		return
	case <-time.After(until + h.plan.patience()):
	}
	h.mu.Lock()
	for who, begun := range h.open {
		h.fault("call %s waits since %v", who, begun)
	}
	slices.Sort(h.problems)
	h.mu.Unlock()
	stop()
	for _, l := range h.limiters {
		_ = l.Close()
	}
	<-done
}

// typed reports whether an error is one that the package names.
func typed(ctx context.Context, err error) bool {
	if e := (*reserve.Error)(nil); !errors.As(err, &e) {
		return false
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return true
	}
	return slices.ContainsFunc([]error{
		reserve.ErrUnavailable, reserve.ErrDenied, reserve.ErrWouldMissDeadline, reserve.ErrClosed,
	}, func(known error) bool { return errors.Is(err, known) })
}
