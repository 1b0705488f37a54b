package cost

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// sample is what one slice of a closed loop gave.
type sample struct {
	Calls   int64
	Elapsed time.Duration
	Allocs  uint64
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
	runtime.GC() // what others left behind is not paid by this one
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	close(gate)
	time.Sleep(d)
	stop.Store(true)
	ended.Wait()
	elapsed := time.Since(began)
	runtime.ReadMemStats(&after)
	return sample{calls.Load(), elapsed, after.Mallocs - before.Mallocs}, failed
}

// connections are those of each contender's client.
const connections = 64

func newClient(address string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: address, PoolSize: connections, PoolTimeout: time.Minute, ReadTimeout: 10 * time.Second})
}

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
