package cost

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/fleetpace/fleetpace/bench/internal/child"
)

// MemberRole makes the program a process in which a contender asks.
const MemberRole = "-cost-member"

// setup is what such a process is told first.
type setup struct {
	Contender, Address, Name string
	Callers, Keys            int
	Full                     bool // calls have to wait
}

// order is what it is told then, again and again.
type order struct {
	Do    string
	For   time.Duration // of waits
	Apart time.Duration // of the others: between two calls
}

// What it may be told to do.
const (
	waits  = "waits"  // make calls that find permits available
	places = "places" // let calls wait that have to, one after the other
	leaves = "leaves" // let these calls leave the queue
)

// sample is what was done by an order.
type sample struct {
	Calls, Lapsed int64
	Elapsed       time.Duration
	Allocs, Bytes uint64
}

// member is the process, seen from inside.
type member struct {
	setup
	*asker
	queued []func(context.Context) error // each leaves the queue
}

// Member asks whenever it is told to, and tells how often it could.
func Member() error {
	var m member
	if err := child.Told(&m.setup); err != nil {
		return fmt.Errorf("a process got no setup: %w", err)
	}
	i := slices.IndexFunc(contenders, func(c contender) bool { return c.name == strings.TrimSuffix(m.Contender, before) })
	if i < 0 {
		return fmt.Errorf("there is no contender %q", m.Contender)
	}
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: m.Address, PoolSize: connections, PoolTimeout: time.Minute, ReadTimeout: 10 * time.Second})
	var err error
	if m.asker, err = contenders[i].open(client, &m.setup); err != nil {
		return err
	}
	if err := warm(ctx, client, m.ask, m.Keys); err != nil {
		return err
	}
	child.Tell("ready")
	var o order
	for child.Told(&o) == nil {
		got, err := m.do(ctx, o)
		if err != nil {
			return err
		}
		child.Tell(got)
	}
	m.end()
	return client.Close()
}

// connections are those of each contender's client.
const connections = 64

// warm opens all connections, and asks once about each key.
func warm(ctx context.Context, client *redis.Client, asks ask, keys int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2 * connections)
	for range 2 * connections {
		group.Go(func() error { return client.Ping(ctx).Err() })
	}
	for i := range max(1, keys) {
		key := ""
		if keys > 0 {
			key = strconv.Itoa(i)
		}
		group.Go(func() error { return asks(ctx, key) })
	}
	return group.Wait()
}

// do follows an order.
func (m *member) do(ctx context.Context, o order) (got sample, err error) {
	had := m.lapses()
	switch o.Do {
	case waits:
		got, err = loop(ctx, m.ask, m.Callers, m.Keys, o.For)
	case places:
		got, err = m.each(o.Apart, func(i int) error { return m.queue(ctx, i) })
	case leaves:
		got, err = m.each(o.Apart, func(i int) error { return m.queued[len(m.queued)-1-i](ctx) })
		time.Sleep(settled)
	}
	got.Lapsed = m.lapses() - had
	return got, err
}

// inQueue is how many calls wait at once that are measured while they wait.
const inQueue = 100

// settled is how long after the last of them a process and Redis are at rest: leaving is not waited for.
const settled = 50 * time.Millisecond

// queue lets call i wait.
func (m *member) queue(ctx context.Context, i int) (err error) {
	m.queued[i], err = m.place(ctx)
	return err
}

// each does something for each of them, one after the other.
func (m *member) each(apart time.Duration, do func(i int) error) (got sample, err error) {
	m.queued = slices.Grow(m.queued, inQueue)[:inQueue]
	var took time.Duration
	since := counters()
	for i := 0; i < inQueue && err == nil; i++ {
		began := time.Now()
		err = do(i)
		took += time.Since(began)
		time.Sleep(apart)
	}
	got = since(inQueue)
	got.Elapsed = took
	return got, err
}

// counters returns what was done since, by so many calls.
func counters() func(calls int64) sample {
	runtime.GC() // what others left behind is not paid by this one
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	return func(calls int64) sample {
		elapsed := time.Since(began)
		runtime.ReadMemStats(&after)
		return sample{Calls: calls, Elapsed: elapsed, Allocs: after.Mallocs - before.Mallocs, Bytes: after.TotalAlloc - before.TotalAlloc}
	}
}

// between is how many calls a goroutine makes before it lets others run. Without that, thousands
// that never block let each other and the end of the slice wait for seconds.
const between = 64

// loop lets so many goroutines ask for a time, each again as soon as it has its answer, about one
// limit or about some of many keys. Calls under way at the end are waited for, and count.
func loop(ctx context.Context, asks ask, callers, keys int, d time.Duration) (sample, error) {
	var (
		stop         atomic.Bool
		calls        atomic.Int64
		ready, ended sync.WaitGroup
		gate         = make(chan struct{})
		mu           sync.Mutex
		failed       error
	)
	ready.Add(callers)
	for i := range callers {
		ended.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			var done int64
			defer func() { calls.Add(done) }()
			ready.Done()
			<-gate
			for i == 0 && done == 0 || !stop.Load() { // one at least
				key := ""
				if keys > 0 {
					key = strconv.Itoa(random.IntN(keys))
				}
				if err := asks(ctx, key); err != nil {
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
					stop.Store(true)
					return
				}
				if done++; done%between == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	ready.Wait()
	since := counters()
	close(gate)
	time.Sleep(d)
	stop.Store(true)
	ended.Wait()
	return since(calls.Load()), failed
}
