package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	random "math/rand/v2"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/meter"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// Process is an Engine with a lock, a timer and a connection. All limits of one Process are in one
// slot of a cluster. It is safe for concurrent use.
type Process struct {
	client  redis.UniversalClient
	channel string
	watch   func(Event)
	calls   sync.Pool // *Call, for Wait
	readies sync.Pool // *Ready
	inbox   inbox

	life context.Context
	end  context.CancelFunc
	busy sync.WaitGroup // drivers, and who listens

	mu        sync.Mutex
	engine    *Engine
	timer     *time.Timer
	rings     time.Time  // when it does; zero: it is not set
	wanted    bool       // the engine wants to hear news …
	listening bool       // … and somebody listens
	quiet     *sync.Cond // told after each outcome of a batch
}

// checked is what tests do with the outcome of a check after each step; nil: there is none.
var checked func(error)

// self is what is the same in all reports of this process.
var self = func() wire.Report {
	host, _ := os.Hostname()
	return wire.Report{Host: host, PID: os.Getpid(), Started: time.Now().Unix()}
}()

// Start returns a Process that does nothing before the first call. It tells watch, if that is not nil, what
// has happened, and holds no lock meanwhile.
func Start(client redis.UniversalClient, cfg Config, policy string, watch func(Event)) *Process {
	name := make([]byte, 8)
	_, _ = rand.Read(name) // never fails, says crypto/rand
	cfg.Process, cfg.Random, cfg.Self = hex.EncodeToString(name), random.Float64, self
	cfg.Self.Policy = policy
	p := &Process{client: client, channel: cfg.Channel, watch: watch, engine: New(cfg)}
	p.quiet = sync.NewCond(&p.mu)
	p.calls.New = func() any { return NewCall(Need{}) }
	p.readies.New = func() any { return &Ready{} }
	p.life, p.end = context.WithCancel(context.Background())
	return p
}

// Close ends all waits, leaves their places, signs the process off and returns when that is done.
func (p *Process) Close() {
	p.step((*Engine).Close)
	p.end()
	p.mu.Lock()
	for {
		now := time.Now()
		done := p.engine.SignOff(now)
		r := p.ready(now)
		p.mu.Unlock()
		p.act(r, false)
		p.mu.Lock()
		if done {
			break
		}
		p.quiet.Wait()
	}
	p.mu.Unlock()
	p.busy.Wait()
}

// End ends the calls that need a limit of a name.
func (p *Process) End(name *wire.Name) {
	p.step(func(e *Engine, now time.Time) { e.End(now, name) })
}

// step hands an event to the engine, and does what is ready then.
func (p *Process) step(event func(e *Engine, now time.Time)) {
	p.mu.Lock()
	now := time.Now()
	p.letIn(now)
	event(p.engine, now)
	r := p.ready(now)
	p.mu.Unlock()
	p.act(r, false)
}

// ring is a step of the timer.
func (p *Process) ring() {
	p.step(func(*Engine, time.Time) { p.rings = time.Time{} })
}

// ready takes what is to be done. The Process must be locked.
func (p *Process) ready(now time.Time) *Ready {
	r, _ := p.readies.Get().(*Ready)
	p.quiet.Broadcast() // Close waits for the last batch
	for p.engine.Ready(now, r); p.inbox.watch(p.engine.Gathers(now)) && !p.engine.Gathers(now); {
		more, _ := p.readies.Get().(*Ready)
		p.letIn(now)
		p.engine.Ready(now, more)
		r.Send, r.Wake, r.Tell = append(r.Send, more.Send...), append(r.Wake, more.Wake...), append(r.Tell, more.Tell...)
		r.Listen, r.Next = more.Listen, more.Next
		p.putBack(more)
	}
	if checked != nil {
		checked(p.engine.check(now))
	}
	if !r.Next.IsZero() && (p.rings.IsZero() || r.Next.Before(p.rings)) {
		p.rings = r.Next
		if p.timer == nil {
			p.timer = time.AfterFunc(r.Next.Sub(now), p.ring)
		} else {
			p.timer.Reset(r.Next.Sub(now))
		}
	}
	if p.wanted = r.Listen; p.wanted && !p.listening {
		p.listening = true
		p.busy.Go(p.listen)
	}
	return r
}

// act does what is ready. Each batch has a driver of its own, but for one that the caller wants to drive
// itself: it is returned.
func (p *Process) act(r *Ready, drives bool) (own *Batch) {
	for _, c := range r.Wake {
		c.signal()
	}
	for i := range r.Tell {
		p.happened(r.Tell[i])
	}
	for _, b := range r.Send {
		if drives && own == nil && b.Script != Beat {
			own = b
			continue
		}
		p.busy.Go(func() { p.drive(b) })
	}
	p.putBack(r)
	return own
}

// putBack empties what was ready, for another use.
func (p *Process) putBack(r *Ready) {
	clear(r.Send)
	clear(r.Wake)
	clear(r.Tell)
	*r = Ready{Send: r.Send[:0], Wake: r.Wake[:0], Tell: r.Tell[:0]}
	p.readies.Put(r)
}

// happened counts and tells what has happened.
func (p *Process) happened(e Event) {
	e.Count()
	if p.watch != nil {
		p.watch(e)
	}
}

// drive sends a batch, and those that are ready after it.
func (p *Process) drive(b *Batch) {
	for b != nil {
		calls := b.calls
		p.attempt(b)
		if b.Over() {
			r, _ := p.readies.Get().(*Ready)
			p.engine.Woken(r)
			p.mu.Unlock()
			p.act(r, false)
			p.yield(calls)
			p.mu.Lock()
			p.letIn(time.Now())
			p.engine.Free(b)
		}
		r := p.ready(time.Now())
		p.mu.Unlock()
		b = p.act(r, true)
	}
}

// driveOnce sends a batch for the call that needs it; others drive those that are ready after it.
func (p *Process) driveOnce(b *Batch) {
	p.attempt(b)
	if b.Over() {
		p.engine.Free(b)
	}
	r := p.ready(time.Now())
	p.mu.Unlock()
	p.act(r, false)
}

// attempt sends a batch, and hands its outcome to the engine. It leaves the Process locked.
func (p *Process) attempt(b *Batch) {
	result, err := p.send(b)
	p.mu.Lock()
	now := time.Now()
	p.letIn(now)
	if err != nil {
		p.engine.Failed(now, b, err)
	} else {
		p.engine.Reply(now, b, &result)
	}
}

// send makes one command of Redis. A batch serves many calls: no context of theirs ends it.
func (p *Process) send(b *Batch) (r Result, err error) {
	ctx := context.Background()
	b.Call.Client, b.Heartbeat.Client = p.client, p.client
	r.Sent = time.Now()
	switch b.Script {
	case Ask:
		r.Reply, r.Answers, err = wire.Ask(ctx, &b.Call, b.Items)
	case Leave:
		r.Reply, r.Counts, err = wire.Leave(ctx, &b.Call, b.Left)
	case Settle:
		r.Reply, _, err = wire.Settle(ctx, &b.Call, b.Used)
	case Inspect:
		r.Reply, _, err = wire.Inspect(ctx, &b.Call)
	case Beat:
		r.Pulse, err = wire.Beat(ctx, &b.Heartbeat)
	case Register:
		err = wire.Register(p.life, p.client, b.Names, r.Sent)
	case Holders:
		r.Held, err = wire.Held(p.life, p.client, b.Logs, b.process, mostHeld)
	}
	r.Arrived = time.Now()
	return r, err
}

// yields is how often others run before the next batch is made.
const yields = 16

// yield lets those run who were given their turns: if they want another one, they share the next batch
// with those who wait for it.
func (p *Process) yield(calls int) {
	for range yields {
		p.mu.Lock()
		p.letIn(time.Now())
		gathered := p.engine.Gathered()
		p.mu.Unlock()
		if gathered >= calls {
			return
		}
		runtime.Gosched()
	}
}

// inbox holds calls that come while a batch is under way, until that is back: thousands of them do not
// compete for the lock of the Process with it.
type inbox struct {
	mu      sync.Mutex
	came    []*Call // They have not joined yet.
	room    []*Call // For those who come next.
	watched bool    // A batch is under way, and its driver lets in who came.
}

// add takes a call, and reports whether somebody has to let it in.
func (i *inbox) add(c *Call) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.came = append(i.came, c)
	return !i.watched && len(i.came) == 1 || len(i.came) == crowd
}

// watch notes whether a driver will let calls in, and reports whether some have come.
func (i *inbox) watch(watched bool) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.watched = watched
	return len(i.came) > 0
}

// letIn lets calls join that have come. The Process must be locked.
func (p *Process) letIn(now time.Time) {
	i := &p.inbox
	i.mu.Lock()
	came := i.came
	if len(came) > 0 {
		i.came, i.room = i.room, nil
	}
	i.mu.Unlock()
	if len(came) == 0 {
		return
	}
	for _, c := range came {
		p.engine.Join(now, c)
	}
	clear(came)
	i.mu.Lock()
	i.room = came[:0]
	i.mu.Unlock()
}

// join lets a call wait. If its caller has nothing else to do, and nobody to share a batch with, it drives
// that itself.
func (p *Process) join(c *Call, drives bool) {
	if !p.inbox.add(c) {
		return
	}
	p.mu.Lock()
	now := time.Now()
	p.letIn(now)
	r := p.ready(now)
	p.mu.Unlock()
	if own := p.act(r, drives); own != nil {
		p.driveOnce(own)
	}
}

// Standing tells how limits stand, and whether Redis is away. It lets nobody in: who collects is not one
// of the callers.
func (p *Process) Standing(of func(*meter.Limit) *meter.Standing) (away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.engine.Standing(of)
}

// LeaseStats returns the counts of all limits of a name.
func (p *Process) LeaseStats(name *wire.Name) LeaseStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.engine.LeaseStats(name)
}

// Shut is the error of a call that is not made, as Redis is away.
func (p *Process) Shut() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.engine.breaker.shut()
}
