package engine

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// These methods let calls join, and send batches.

// drive sends a batch, and then the batches that are ready after it.
func (p *Process) drive(b *Batch) {
	for b != nil {
		calls := b.calls
		p.attempt(b)
		if b.over {
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

// driveOnce sends a batch for the call that needs it. Other drivers send the batches that are ready after it.
func (p *Process) driveOnce(b *Batch) {
	p.attempt(b)
	if b.over {
		p.engine.Free(b)
	}
	r := p.ready(time.Now())
	p.mu.Unlock()
	p.act(r, false)
}

// attempt sends a batch, and hands its outcome to the engine. It leaves the Process locked.
func (p *Process) attempt(b *Batch) {
	var err error
	b.result, err = p.send(b)
	p.mu.Lock()
	now := time.Now()
	p.letIn(now)
	if err != nil {
		p.engine.Failed(now, b, err)
	} else {
		p.engine.Reply(now, b, &b.result)
	}
}

// send makes one command of Redis. A batch serves many calls, so the context of one call does not end it.
func (p *Process) send(b *Batch) (Result, error) {
	ctx := context.Background()
	if b.Script == Register || b.Script == Holders {
		ctx = p.life
	}
	return b.Execute(ctx, p.client, time.Now)
}

// Execute makes the command of the batch. now is the clock. The outcome goes to Engine.Reply or Engine.Failed.
func (b *Batch) Execute(ctx context.Context, client redis.UniversalClient, now func() time.Time) (r Result, err error) {
	b.Call.Client, b.Heartbeat.Client = client, client
	r.Sent = now()
	b.Call.Time, b.Call.Sent = now, time.Time{}
	switch b.Script {
	case Ask:
		r.Reply, r.Answers, err = wire.Ask(ctx, &b.Call, b.Items)
	case Leave:
		r.Reply, r.Counts, err = wire.Leave(ctx, &b.Call, b.Left)
	case Settle:
		r.Reply, _, err = wire.Settle(ctx, &b.Call, b.Used)
	case Inspect:
		r.Reply, err = wire.Measure(ctx, &b.Call)
	case Beat:
		r.Pulse, err = wire.Beat(ctx, &b.Heartbeat)
	case Register:
		err = wire.Register(ctx, client, b.Names, r.Sent)
	case Holders:
		r.Held, err = wire.Held(ctx, client, b.Logs, b.process, mostHeld)
	}
	if r.Arrived = now(); !b.Call.Sent.IsZero() {
		r.Sent = b.Call.Sent
	}
	return r, err
}

// yields is how often other goroutines run, at most, before the next batch is made.
const yields = 16

// yield lets the goroutines run whose calls were given turns. If they need another turn, they share the next
// batch with the calls that wait for it.
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

// inbox holds calls that come while a batch is under way, until the batch is back. So thousands of calls do not
// compete with its driver for the lock of the Process.
type inbox struct {
	mu      sync.Mutex
	came    []*Call // The calls that have not joined yet.
	room    []*Call // Memory for the calls that come next.
	watched bool    // A batch is under way, and its driver lets the calls join.
}

// add adds a call, and reports whether its caller has to let it join.
func (i *inbox) add(c *Call) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.came = append(i.came, c)
	return !i.watched && len(i.came) == 1 || len(i.came) == crowd
}

// watch notes whether a driver will let the calls join, and reports whether there are any.
func (i *inbox) watch(watched bool) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.watched = watched
	return len(i.came) > 0
}

// letIn lets the calls of the inbox join. The Process must be locked.
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

// join makes a call wait. If no driver lets the call join, its caller does so. If drives is true, the caller
// then also sends a batch that is ready.
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

// The code below listens to the channel of the news, and hands each message to [Engine.News].

const (
	quiet   = time.Second // how often a silent connection is tried, and the process checks whether it still needs news
	silence = 3 * quiet   // after this silence the connection is given up
	mostOff = time.Minute // the longest pause between two attempts to listen where Redis forbids it …
	leftOff = 3           // … and after how many failures the pause grows no more, where Redis does not answer
)

// listen receives news for as long as the engine wants them.
func (p *Process) listen() {
	for failures := 0; ; failures++ {
		heard, err := p.subscribe()
		if heard {
			failures = 0
		}
		if err != nil {
			p.step(func(e *Engine, now time.Time) { e.Unsubscribed(now) })
		}
		why, pause := fault.Classify(err), p.engine.backoff(min(failures, leftOff))
		if errors.Is(why, fault.ErrDenied) || !fault.Away(why) {
			pause = min(mostOff, p.engine.backoff(failures)<<min(failures, 8))
		}
		if p.ends() || err != nil && !p.rest(context.Background(), pause) {
			return
		}
	}
}

// ends reports whether the process stops listening, because it wants no news any more, or is closed.
func (p *Process) ends() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listening = p.wanted && p.life.Err() == nil
	return !p.listening
}

// subscribe receives news until the connection fails, or for as long as the engine wants news. It reports
// whether it has received anything.
func (p *Process) subscribe() (heardSome bool, err error) {
	ctx := p.life
	news := p.client.Subscribe(ctx, p.channel)
	// news.Close waits for a connection that is being made. In simulated time no time passes for a goroutine
	// that waits for a lock. So the end of the context closes only a connection that has been made.
	stop := func() bool { return true }
	defer func() {
		if stop() {
			_ = news.Close()
		}
	}()
	heard := time.Now()
	for {
		message, err := news.ReceiveTimeout(ctx, quiet)
		if isTimeout(err) {
			if !p.wantsNews() {
				return heardSome, nil
			}
			if time.Since(heard) < silence {
				if err = news.Ping(ctx); err == nil {
					continue
				}
			}
		}
		if err != nil {
			return heardSome, err
		}
		heard, heardSome = time.Now(), true
		p.step(func(e *Engine, now time.Time) {
			switch m := message.(type) {
			case *redis.Message:
				e.News(now, m.Payload)
			case *redis.Subscription:
				e.Subscribed(now)
			default:
				e.Alive(now)
			}
		})
		if _, subscribed := message.(*redis.Subscription); subscribed {
			stop = context.AfterFunc(ctx, func() { _ = news.Close() })
		}
	}
}

func (p *Process) wantsNews() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wanted
}

func isTimeout(err error) bool {
	var net interface{ Timeout() bool }
	return errors.As(err, &net) && net.Timeout()
}
