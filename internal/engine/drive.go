package engine

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// The methods in this file let calls join, and send batches.

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
		r.Reply, _, err = wire.Inspect(ctx, &b.Call)
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
