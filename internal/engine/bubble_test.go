package engine_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/fleetpace/fleetpace/internal/delay"
	"github.com/fleetpace/fleetpace/internal/engine"
	"github.com/fleetpace/fleetpace/internal/quick"
	"github.com/fleetpace/fleetpace/internal/wire"
	scripts "github.com/fleetpace/fleetpace/lua"
)

// bubble is a Redis inside a testing/synctest bubble, where time is simulated. Processes of
// a fleet reach it through connections in memory, each as far away as it wants.
type bubble struct {
	testing.TB
	mini *quick.Redis
	asks atomic.Int64 // script calls
	seen [engine.Rules + 1]atomic.Int64
	cut  atomic.Bool // while set, replies are lost
	over chan struct{}
}

func newBubble(t testing.TB) *bubble {
	m, err := quick.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	b := &bubble{TB: t, mini: m, over: make(chan struct{})}
	return b
}

// errLate is what the limits of tests say of a deadline.
var (
	errLate   = errors.New("the turn comes after the deadline")
	errClosed = errors.New("closed")
)

// process is one of a fleet.
type process struct {
	*engine.Process
	bubble *bubble
	client *redis.Client
	name   *wire.Name
	way    atomic.Int64 // nanos, each way
	delay  atomic.Int64 // of the reply to the next ask, nanos
	leaves atomic.Int64 // by how much longer they are on their way, nanos
	hung   atomic.Bool  // it is dead, and its connections tell nobody
}

// travel is how long one way takes.
func (p *process) travel() time.Duration {
	way := p.way.Load()
	return time.Duration(way + rand.Int64N(way/10+1))
}

// dial connects a process; one that is dead never hears anything.
func (p *process) dial() (net.Conn, error) {
	dialed, err := p.bubble.mini.Dial()
	if err != nil {
		return nil, err
	}
	var asked atomic.Bool // with the last words
	return delay.Conn(dialed, delay.Way{
		Out: func(data []byte) time.Duration {
			asked.Store(bytes.Contains(data, []byte(scripts.Ask.Hash())) || bytes.Contains(data, []byte(scripts.Take.Hash())))
			if p.hung.Load() {
				<-p.bubble.over
			}
			if bytes.Contains(data, []byte(scripts.Leave.Hash())) {
				return p.travel() + time.Duration(p.leaves.Load())
			}
			return p.travel()
		},
		Back: func() time.Duration {
			if asked.Load() {
				return p.travel() + time.Duration(p.delay.Swap(0))
			}
			return p.travel()
		},
		Lost: p.bubble.cut.Load,
		Dead: p.hung.Load,
	}), nil
}

// process starts one that is a way off.
func (b *bubble) process(way time.Duration) *process {
	beats := scripts.BeatKeys("t", "", "api")
	p := &process{bubble: b, name: &wire.Name{Life: beats[:2], Keys: beats[2:], Kind: "p", Pace: 1, Limit: "one"}}
	p.way.Store(int64(way))
	p.client = redis.NewClient(&redis.Options{
		Dialer:                   func(context.Context, string, string) (net.Conn, error) { return p.dial() },
		Addr:                     "127.0.0.1:6379",
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		DisableIdentity:          true,
		MaxRetries:               -1,
		PoolSize:                 1000,
	})
	p.client.AddHook(counter{&b.asks})
	p.Process = engine.Start(p.client, engine.Config{
		Channel: "news", Dead: 3 * time.Second, Failures: 3, Probe: 500 * time.Millisecond,
		Away: engine.AwayLocal, Share: func(l *wire.Limit) (float64, int) {
			a, _ := l.InForce()
			return 0.9 * 1e6 / a / float64(max(l.Name.Alive.Load(), 1)), 1
		},
		Errors: engine.Errors{Closed: errClosed, Missed: func(time.Time, time.Time, int) error { return errLate }},
	}, "local", func(e engine.Event) { b.seen[e.What].Add(int64(e.N)) })
	b.Cleanup(func() {
		if p.hung.Load() {
			return
		}
		p.Close()
		_ = p.client.Close()
	})
	return p
}

// counter counts script calls.
type counter struct{ calls *atomic.Int64 }

func (counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			c.calls.Add(1)
		}
		return next(ctx, cmd)
	}
}

// paced is a limit of the fleet, as this process knows it.
func (p *process) paced(key string, perSecond float64, burst int) *wire.Limit {
	return wire.NewLimit(wire.Terms{Kind: "p", A: 1e6 / perSecond, B: float64(burst)}, scripts.Keys("t", "", "api", "p", key), p.name)
}

func one(l *wire.Limit) engine.Need { return engine.Need{Part: engine.Part{Limit: l, Cost: 1}} }

func (*process) limits(l ...*wire.Limit) []*wire.Limit { return l }

// heldCall is a call that a process holds.
type heldCall struct {
	p *engine.Process
	c *engine.Call
}

// Hold lets a call join the queue.
func (p *process) Hold(ctx context.Context, need engine.Need, deadline time.Time) (*heldCall, error) {
	c, err := p.Process.Hold(ctx, need, deadline)
	return &heldCall{p.Process, c}, err
}

func (h *heldCall) view() engine.View { return h.p.View(h.c) }
func (h *heldCall) Due() time.Time    { return h.view().Due }
func (h *heldCall) Given() bool       { return h.view().Turn != nil }
func (h *heldCall) Booked() bool      { return h.view().State == engine.Booked }

func (h *heldCall) Cancel() bool {
	_, ended := h.p.Cancel(h.c)
	return ended
}

func (h *heldCall) Wait(ctx context.Context) (engine.Turn, error) { return h.WaitEarly(ctx, 0) }

func (h *heldCall) WaitEarly(ctx context.Context, early time.Duration) (engine.Turn, error) {
	turn, err := h.p.WaitFor(ctx, h.c, early)
	if err != nil {
		return engine.Turn{}, err
	}
	return *turn, nil
}

func (h *heldCall) Until() time.Time {
	v := h.view()
	return v.Until()
}

// Book puts the call back, and reports whether it is booked.
func (h *heldCall) Book() bool {
	h.p.PutBack(h.c, false)
	return h.view().State == engine.Back
}
