package reserve_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// others makes so many more limits of the group g in a process, and has calls at each of them about
// every five seconds, until the context ends.
func (b *bubble) others(ctx context.Context, client redis.UniversalClient, n int, all *sync.WaitGroup) []*reserve.Limiter {
	var others []*reserve.Limiter
	for i := range n {
		others = append(others, b.on(client, reserve.Config{Name: fmt.Sprint("other-", i), Group: "g", Limit: reserve.PerSecond(1000).Burst(100)}))
	}
	all.Go(func() {
		for ctx.Err() == nil {
			for _, l := range others {
				all.Go(func() { _, _ = l.Allow(ctx) })
				time.Sleep(5 * time.Second / time.Duration(n))
			}
		}
	})
	return others
}

// A process that lives keeps its slot, however many limits it uses and however far away Redis is;
// one that is killed loses it as soon as ever. A call that follows a broken connection waits for
// one heartbeat, whatever the number of limits.
func TestAProcessOfManyLimitsLives(t *testing.T) {
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 15))
			names := []int{100, 200, 400}[seed]
			b := newBubble(t)
			b.way.Store(int64(time.Duration(10+random.IntN(20)) * time.Millisecond))
			client := b.client()
			mine := b.on(client, reserve.Config{Name: "slot", Group: "g", Limit: reserve.Concurrent(1)})
			b.way.Store(int64(way))
			other := b.with(reserve.Config{Name: "slot", Group: "g", Limit: reserve.Concurrent(1)})
			r, err := other.Acquire(t.Context(), 1) // it is there, and beats
			require.NoError(t, err)
			r.Release()
			b.way.Store(int64(time.Duration(10+random.IntN(20)) * time.Millisecond))
			held, err := mine.Acquire(t.Context(), 1)
			require.NoError(t, err)
			going, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			defer all.Wait()
			defer stop()
			others := b.others(going, client, names, &all)

			trying, end := context.WithTimeout(t.Context(), 12*time.Second)
			defer end()
			began := time.Now()
			_, err = other.Acquire(trying, 1)
			t.Logf("MEASURE seed %d: %d limits: another process's call ended after %v: %v", seed, names, time.Since(began), err)
			assert.ErrorIs(t, err, context.DeadlineExceeded, "seed %d: %d limits: its process lives, and holds the slot", seed, names)
			select {
			case <-held.Lost():
				t.Errorf("seed %d: it was told that it has lost its slot", seed)
			default:
			}

			stop()
			all.Wait()
			b.cut.Store(true) // replies are lost
			failing := make(chan error)
			go func() { failing <- others[0].Wait(context.Background()) }()
			time.Sleep(100 * time.Millisecond)
			b.cut.Store(false)
			began = time.Now()
			require.NoError(t, <-failing)
			t.Logf("MEASURE seed %d: %d limits: after a broken connection a call took %v more", seed, names, time.Since(began))
			assert.LessOrEqual(t, time.Since(began), 500*time.Millisecond, "seed %d: a pause between tries, one heartbeat and the ask", seed)

			began = time.Now()
			require.NoError(t, client.Close()) // it is silent from now on
			r, err = other.Acquire(t.Context(), 1)
			require.NoError(t, err)
			assert.LessOrEqual(t, time.Since(began), 5*time.Second)
			r.Release()
		})
	}
}
