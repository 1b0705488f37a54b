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

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// history is a plan at work.
type history struct {
	*plan
	bug     bug
	network *network
	fleet   []*reserve.Joint // of one limit each
	ctx     context.Context  // ends when calls are stuck

	mu       sync.Mutex
	served   []servedCall
	open     map[string]time.Duration // calls under way, and since when
	holding  map[*reserve.Reservation]bool
	problems []string
}

// servedCall is a call that was made because it had its turn.
type servedCall struct {
	at   time.Duration
	cost int
	who  string
}

const (
	settled = 2 * time.Second // after the last trouble the fleet is back at its rate, if replies are not waited for
	greedy  = 8               // callers per history that have work from the last trouble on
	busy    = 2 * time.Second // of that is judged
)

// play makes a history happen in a bubble of its own.
func play(t *testing.T, p *plan, b bug) *history {
	h := &history{plan: p, bug: b, open: map[string]time.Duration{}, holding: map[*reserve.Reservation]bool{}}
	synctest.Test(t, h.run)
	return h
}

func (h *history) run(t *testing.T) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	defer m.Close()
	server := newFaultyRedis(m)
	h.network = &network{plan: h.plan, redis: server, start: time.Now(), random: h.random("network", 0)}
	var clients []*redis.Client
	for i := range h.way {
		clients = append(clients, h.join(t, i))
	}
	var stop context.CancelFunc
	h.ctx, stop = context.WithCancel(t.Context())
	for _, f := range h.troubles {
		h.prepare(server, f)
	}
	var calls sync.WaitGroup
	for _, c := range h.callers {
		calls.Go(func() { h.work(c) })
	}
	for i := range greedy {
		calls.Go(func() { h.hurry(i) })
	}
	h.waitFor(&calls, stop)
	stop()
	if h.slots > 0 {
		h.allFree(t)
	}
	for i, j := range h.fleet {
		_ = j.Limits()[0].Close()
		_ = clients[i].Close()
	}
	if h.slots == 0 {
		h.check()
	}
}

// join makes a process of the fleet.
func (h *history) join(t *testing.T, i int) *redis.Client {
	client := redis.NewClient(&redis.Options{
		Dialer:                   func(ctx context.Context, _, _ string) (net.Conn, error) { return h.network.dial(ctx, i) },
		Addr:                     "127.0.0.1:6379",
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		DisableIdentity:          true,
		DialTimeout:              maxTimeout,
		DialerRetries:            1,
		ReadTimeout:              h.timeout[i],
		WriteTimeout:             h.timeout[i],
		PoolSize:                 1000,
	})
	if h.bug.call != nil {
		client.AddHook(spoiler(h.bug.call))
	}
	limit := reserve.PerSecond(h.rate).Burst(h.burst)
	if h.slots > 0 {
		limit = reserve.Concurrent(h.slots)
	}
	l, err := reserve.New(client, reserve.Config{Name: "api", Limit: limit, Outage: reserve.Outage{Policy: h.policy}})
	if err != nil {
		t.Fatal(err)
	}
	h.fleet = append(h.fleet, joint(t, l))
	return client
}

// prepare lets a trouble happen when its time has come.
func (h *history) prepare(r *faultyRedis, f trouble) {
	begin, end := func() {}, func() {}
	keys := lua.Keys(reserve.DefaultPrefix, "", "api", "p", "")
	switch f.what {
	case refusal:
		begin, end = func() { r.refuse(f.text) }, func() { r.refuse("") }
	case down:
		begin = h.network.reset
	case restart:
		begin = func() { h.network.reset(); r.restart(); r.flushScripts() }
	case rollBack:
		begin = func() { h.network.reset(); r.rollBack(); r.flushScripts() }
		time.AfterFunc(max(0, f.from-time.Duration(h.random("lag", 0).IntN(1000))*time.Millisecond), r.save)
	case flush:
		begin = func() { r.FlushAll() }
	case deleteState:
		begin = func() { r.Del(keys[0]) }
	case deleteQueue:
		begin = func() { r.Del(keys[1]) }
	case clockStep:
		begin = func() { r.step(f.step) }
	case scriptFlush:
		begin = r.flushScripts
	case cutNews:
		begin = h.network.cutNews
	}
	time.AfterFunc(f.from, begin)
	if f.to > f.from {
		time.AfterFunc(f.to, end)
	}
}

// window is when the fleet must be back at its rate.
func (h *history) window() (from, until time.Duration) {
	from = h.ends + settled + slices.Max(h.timeout)
	return from, from + max(busy, 60*h.interval())
}

// work is what a caller does while troubles happen.
func (h *history) work(c caller) {
	random := h.random("caller", c.number)
	_, until := h.window()
	for i := 0; h.network.now() < min(until, h.ends+settled); i++ {
		h.call(c, fmt.Sprintf("c%d.%d", c.number, i), h.cost(random), random)
		time.Sleep(time.Duration(2 * random.Float64() * float64(c.apart)))
	}
}

// hurry makes one call after the other once all is well again.
func (h *history) hurry(i int) {
	random := h.random("greedy", i)
	_, until := h.window()
	time.Sleep(h.ends + time.Duration(i)*30*time.Millisecond)
	for n := 0; h.network.now() < until && h.ctx.Err() == nil; n++ {
		h.call(caller{process: i % len(h.fleet), verb: "wait"}, fmt.Sprintf("g%d.%d", i, n), h.cost(random), random)
		time.Sleep(10 * time.Millisecond) // a call takes its time
	}
}

func (h *history) cost(random *rand.Rand) int { return max(1, h.burst-random.IntN(2*h.burst)) }

// call makes one call, as its caller does.
func (h *history) call(c caller, who string, cost int, random *rand.Rand) {
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	if random.Float64() < c.givesUp && h.network.now() < h.ends {
		after := time.Duration(random.Float64() * float64(time.Second))
		if random.IntN(2) == 0 {
			ctx, cancel = context.WithTimeout(ctx, after)
			defer cancel()
		} else {
			defer time.AfterFunc(after, cancel).Stop()
		}
	}
	began := h.network.now()
	h.mu.Lock()
	h.open[who] = began
	h.mu.Unlock()
	j, served := h.fleet[c.process], true
	var err error
	switch {
	case h.slots > 0:
		err = h.hold(ctx, j, c, random)
	case h.bug.impatient && random.IntN(10) == 0:
		_, err = j.Reserve(ctx, cost)
	case c.verb == "allow":
		served, err = j.Allow(ctx, cost)
	case c.verb == "reserve":
		var r *reserve.Reservation
		if r, err = j.Reserve(ctx, cost); err == nil {
			err = h.use(ctx, r)
		}
	case c.verb == "ask":
		err = h.ask(ctx, j, who, cost)
	default:
		err = j.Wait(ctx, cost)
	}
	h.end(ctx, who, cost, served && err == nil, err)
}

// use waits for a reservation, or gives it up.
func (h *history) use(ctx context.Context, r *reserve.Reservation) error {
	err := r.Wait(ctx)
	if err != nil {
		_ = r.Cancel(context.WithoutCancel(ctx))
	}
	return err
}

// ask makes a call that is booked where its turn is far, and comes back.
func (h *history) ask(ctx context.Context, j *reserve.Joint, id string, cost int) error {
	for {
		r, err := j.Ask(ctx, id, 300*time.Millisecond, cost)
		switch {
		case err != nil:
			return err
		case !r.Booked():
			return h.use(ctx, r)
		}
		select {
		case <-time.After(r.Delay() - reserve.Lead):
		case <-ctx.Done():
			_ = r.Cancel(context.WithoutCancel(ctx))
			return ctx.Err()
		}
	}
}

func (h *history) end(ctx context.Context, who string, cost int, served bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.network.now()
	began := h.open[who]
	delete(h.open, who)
	if served {
		h.served = append(h.served, servedCall{now, cost, who})
	}
	if took, bound := now-max(began, h.ends), h.patience(); took > bound {
		h.problem("call %s took until %v, %v after the troubles; the bound is %v", who, now, took, bound)
	}
	if err != nil && !typed(ctx, err) {
		h.problem("call %s: not a typed error: %v", who, err)
	}
	if h.policy == reserve.PolicyWait && errors.Is(err, reserve.ErrUnavailable) {
		h.problem("call %s did not wait for Redis: %v", who, err)
	}
}

// problem notes that a promise was broken. The history must be locked.
func (h *history) problem(format string, args ...any) {
	h.problems = append(h.problems, fmt.Sprintf(format, args...))
}

// patience is how long after the troubles, or its own begin, a call may take: the fleet is
// back, and then everybody who waits has its turn.
func (h *history) patience() time.Duration {
	queue := time.Duration((len(h.callers)+greedy)*h.burst) * h.interval()
	if h.slots > 0 {
		queue += unheard
	}
	return settled + 2*maxTimeout + time.Second + queue
}

// waitFor waits for all calls. Those that are stuck are counted, and ended.
func (h *history) waitFor(calls *sync.WaitGroup, stop context.CancelFunc) {
	done := make(chan struct{})
	go func() { calls.Wait(); close(done) }()
	_, until := h.window()
	select {
	case <-done:
		return
	case <-time.After(until + h.patience()):
	}
	h.mu.Lock()
	for who, began := range h.open {
		h.problem("call %s waits since %v", who, began)
	}
	h.mu.Unlock()
	stop()
	<-done
}

// typed reports whether an error is one that the package names.
func typed(ctx context.Context, err error) bool {
	var e *reserve.Error
	if !errors.As(err, &e) && ctx.Err() == nil {
		return false
	}
	return slices.ContainsFunc([]error{
		reserve.ErrUnavailable, reserve.ErrDenied, reserve.ErrWouldMissDeadline, ctx.Err(),
	}, func(known error) bool { return known != nil && errors.Is(err, known) })
}
