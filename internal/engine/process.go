package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	random "math/rand/v2"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/meter"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// Process is an Engine with a lock, a timer and a connection. All limits of one Process are in one hash slot of
// a cluster. It is safe for concurrent use.
type Process struct {
	client  redis.UniversalClient
	channel string
	watch   func(Event)
	calls   sync.Pool // *Call, for Wait
	readies sync.Pool // *Ready
	inbox   inbox
	settlements

	life context.Context
	end  context.CancelFunc
	busy sync.WaitGroup // the drivers, and the goroutine that listens

	mu        sync.Mutex
	engine    *Engine
	timer     *time.Timer
	rings     time.Time  // when the timer fires; zero: it is not set
	wanted    bool       // the engine wants news …
	listening bool       // … and a goroutine listens to it
	quiet     *sync.Cond // Close waits on it for the outcomes of batches
}

// checked, if it is not nil, is called after each step. Tests set it.
var checked func(e *Engine, now time.Time)

// self has the fields that are the same in all reports of this process.
var self = func() wire.Report {
	host, _ := os.Hostname()
	return wire.Report{Host: host, PID: os.Getpid(), Started: time.Now().Unix(), Version: versionIn(debug.ReadBuildInfo())}
}()

// versionIn is the version of fleetpace in a program; empty: it is not known, as in a clone.
func versionIn(info *debug.BuildInfo, ok bool) string {
	if !ok {
		return ""
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == "github.com/fleetpace/fleetpace" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return ""
}

// Start returns a Process that does nothing before the first call. It hands each event to watch, if watch is
// not nil, and holds no lock meanwhile.
func Start(client redis.UniversalClient, cfg Config, policy string, watch func(Event)) *Process {
	name := make([]byte, 8)
	_, _ = rand.Read(name) // it never fails, says crypto/rand
	cfg.Process, cfg.Random, cfg.Self = hex.EncodeToString(name), random.Float64, self
	cfg.Self.Policy = policy
	p := &Process{client: client, channel: cfg.Channel, watch: watch, engine: New(cfg)}
	p.quiet = sync.NewCond(&p.mu)
	p.idle.L = &p.settlements.mu
	p.calls.New = func() any { return NewCall(Need{}) }
	p.readies.New = func() any { return &Ready{} }
	p.life, p.end = context.WithCancel(context.Background())
	return p
}

// Close ends all waits, removes their places, settles what was reported, signs the process off, and returns when all of
// that is done.
func (p *Process) Close() {
	p.step((*Engine).Close)
	p.end()
	p.flush(true)
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
		for p.engine.Unanswered() {
			p.quiet.Wait()
		}
	}
	p.mu.Unlock()
	p.busy.Wait()
}

// End ends the calls that need a limit of a name, and settles what was reported.
func (p *Process) End(name *wire.Name) {
	p.step(func(e *Engine, now time.Time) { e.End(now, name) })
	p.flush(false)
}

// step hands an event to the engine, and then does what is ready.
func (p *Process) step(event func(e *Engine, now time.Time)) {
	p.mu.Lock()
	now := time.Now()
	p.letIn(now)
	event(p.engine, now)
	r := p.ready(now)
	p.mu.Unlock()
	p.act(r, false)
}

// ring is called by the timer. It is a step without an event.
func (p *Process) ring() {
	p.step(func(*Engine, time.Time) { p.rings = time.Time{} })
}

// ready returns what is to be done now. The Process must be locked.
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
		checked(p.engine, now)
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

// act does what is ready. Each batch has a driver of its own. Where drives is true, the caller drives one batch
// itself: act returns it.
func (p *Process) act(r *Ready, drives bool) (own *Batch) {
	for _, c := range r.Wake {
		c.signal()
	}
	for i := range r.Tell {
		if r.Tell[i].count(); p.watch != nil {
			p.watch(r.Tell[i])
		}
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

// putBack empties r, for another use.
func (p *Process) putBack(r *Ready) {
	clear(r.Send)
	clear(r.Wake)
	clear(r.Tell)
	*r = Ready{Send: r.Send[:0], Wake: r.Wake[:0], Tell: r.Tell[:0]}
	p.readies.Put(r)
}

// Standing reports how limits stand, and whether Redis is unreachable. It does not let the calls of the inbox
// join: collecting figures is not part of a call.
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

// Shut returns the error of a call that is not attempted because the breaker is open.
func (p *Process) Shut() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.engine.breaker.shut()
}
