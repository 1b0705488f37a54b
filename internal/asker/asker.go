// Package asker asks Redis for the turns of a process's calls: the only pipeline there.
// Calls that ask at the same time share a script call, of whatever limit, and a call that
// waits asks again shortly before its turn could come. Nothing is polled.
//
// A call joins the queue of those that need the same permits (package queue). Whenever a
// queue has something to ask for, a flight takes that to Redis, together with what other
// queues have, and brings turns and places back (package wire).
package asker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/outage"
	"github.com/fleetpace/fleetpace/internal/queue"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// Config is what an Asker needs.
type Config struct {
	Client  redis.UniversalClient
	Channel string        // for news of the limits; empty: none
	Dead    time.Duration // a process that is silent for so long is dead

	// Breaker says when Redis is away, Away what calls do then, and Share which part of a
	// limit is this process's.
	Breaker *outage.Breaker
	Away    Away
	Share   func(l *wire.Limit) (perSecond float64, burst int)
	Policy  string // the name of Away, for reports

	// Watch is told of what happens, with locks held: it must not call the Asker. Or nil.
	Watch func(Event)

	// Errors are those of package reserve.
	Errors Errors
}

// Errors are what calls are told.
type Errors struct {
	Closed error
	Away   error // under AwayFail
	// Kind is of a limit under whose name one of another kind is in force, with that text.
	Kind func(name *wire.Name, inForce string) error
	// Missed is of a turn that comes too late. The slowest of its limits is the one of that index;
	// -1: that is not known.
	Missed func(turn, deadline time.Time, slowest int) error
}

// Asker asks for turns. All limits of one Asker are in one slot of a cluster. It is safe for
// concurrent use.
type Asker struct {
	cfg     Config
	process string
	clock   clock
	serial  atomic.Int64
	number  atomic.Int64
	waiters sync.Pool
	unmet   atomic.Bool // a call has failed: another server may answer the next one
	door    door

	life context.Context
	end  context.CancelFunc
	busy sync.WaitGroup

	mu        sync.Mutex
	kinds     map[key]*kind
	ready     []*kind        // that have something to ask for
	leaving   map[string]int // by key: places and turns that are on their way back
	behind    []*kind        // that ask when those have landed
	flights   int
	held      int        // those that are back, and whose answers are kept: see hearKinds
	quiet     *sync.Cond // told when there are none
	landed    []*flight  // may be used again
	idle      *kind      // the last one that was forgotten: it may be wanted at once
	aboard    int        // calls that are asked for right now
	closed    bool
	run       string    // of the server
	lost      time.Time // when it lost its data
	searching time.Time // until when who waits for a slot asks with each heartbeat
	names     map[*wire.Name]*pulse
	lifeKeys  []string  // of the heartbeat: the same for all names
	known     bool      // Redis has answered …
	answered  time.Time // … a heartbeat that left then
	knownAt   int64     // by Redis's clock, in micros: it knows the process since then at the latest
	died      int64     // when a process died last, as it said, in micros of Redis
	leases    map[Part]*lease
	slots     map[*Slots]bool            // that calls hold
	audit     map[string]*audit          // by key: limits of which this process may hold slots
	over      []released                 // calls that have let theirs go of late
	past      map[*wire.Name]*LeaseStats // of leases that are no more
	beating   bool
	listening bool
	looking   bool                      // from time to time, while it is not sure to hear news
	rooms     map[*wire.Limit]time.Time // limits of slots that are to be looked at then
	awaits    bool                      // somebody looks at those
	heard     time.Time                 // when it has heard something of those who tell them
	soon      chan struct{}             // a heartbeat is wanted at once
	heartbeat *round                    // the next one
	ordered   int64                     // names that were in use, ever
	away      map[*wire.Limit]*spent    // without Redis; nil: it is there
	since     time.Time                 // when it went
	still     map[string]time.Time      // by key: until when the limit rests without Redis
	moves     map[string]*move          // by key: what happened to the limit of late
	mostMoves int                       // when those of long ago are forgotten
	missed    map[key]missed            // turns that came too late for a call
	moved     map[string]time.Time      // by key: when turns were heard to come earlier than that
	moving    map[string]int            // by key: calls of this process that move the limit
	joined    chan struct{}             // a call did, while it is away
}

// New returns an Asker. It does nothing before the first call.
func New(cfg Config) *Asker {
	name := make([]byte, 8)
	_, _ = rand.Read(name) // never fails, says crypto/rand
	a := &Asker{cfg: cfg, process: hex.EncodeToString(name), kinds: map[key]*kind{}, leaving: map[string]int{}, names: map[*wire.Name]*pulse{}, leases: map[Part]*lease{}, slots: map[*Slots]bool{}, audit: map[string]*audit{},
		past: map[*wire.Name]*LeaseStats{}, still: map[string]time.Time{}, moves: map[string]*move{}, rooms: map[*wire.Limit]time.Time{}, moving: map[string]int{}, soon: make(chan struct{}, 1), heartbeat: &round{back: make(chan struct{})}, joined: make(chan struct{}, 1)}
	a.quiet = sync.NewCond(&a.mu)
	a.waiters.New = func() any { return &waiter{Call: queue.NewCall()} }
	a.life, a.end = context.WithCancel(context.Background())
	return a
}

// Close ends all waits, leaves their places, signs the process off and returns when that is done.
func (a *Asker) Close() {
	a.lock()
	if !a.closed {
		a.closed = true
		a.tidyLeases(time.Now(), true)
		for s := range a.slots {
			a.release(s)
		}
		for _, k := range a.kinds {
			k.queue.Fail(a.cfg.Errors.Closed)
			a.wants(k)
		}
		a.kick()
		a.end()
	}
	for a.flights+a.held > 0 { // a call that is cancelled later may begin another one
		a.quiet.Wait()
	}
	a.mu.Unlock()
	a.busy.Wait()
	a.signOff()
}

// caller is what a script call says of this process. The Asker must be locked.
func (a *Asker) caller(t times) wire.Caller {
	return wire.Caller{
		Process: a.process, Run: a.run, Channel: a.cfg.Channel, Serial: a.serial.Add(1),
		Way: t.way, Horizon: t.horizon, Near: t.ahead, Grace: t.grace, Lost: a.lost,
	}
}
