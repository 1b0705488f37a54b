package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/fleetpace/fleetpace/bench/internal/database"
	"github.com/fleetpace/fleetpace/reserve"
)

const (
	idleLimits    = 200
	callsPerLimit = 3
	waitingCalls  = 1_000
	keptKeys      = 100_000
)

// slow is a limit whose state stays in Redis while it is looked at, for redis_rate
// keeps a limit only until its bucket is full.
func slow(name string, burst int) bucket {
	return bucket{name: name, interval: time.Minute, burst: burst}
}

// runMemory measures bytes, one contender after the other, each in an empty Redis.
func runMemory(ctx context.Context, s *session, t trial) ([]*record, error) {
	var records []*record
	for _, c := range t.contenders {
		s.describe(t.name + " " + c.name)
		r := newRecord(t.name, c.name)
		records = append(records, r)
		if err := idleBytes(ctx, s, c, r); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		if c.name != fleetpaceName {
			continue
		}
		if err := waitingBytes(ctx, s, r); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		if err := keyBytes(s, r); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return records, nil
}

// idleBytes is what a limit takes in Redis after a few calls.
func idleBytes(ctx context.Context, s *session, c contender, r *record) error {
	client := s.client()
	defer client.Close()
	a, err := c.open(client, slow(s.fresh(), 100))
	if err != nil {
		return err
	}
	defer a.close()
	var keys []string
	for i := range idleLimits {
		keys = append(keys, fmt.Sprintf("tenant-%d", i))
	}
	for range callsPerLimit {
		if err := visit(ctx, a, keys); err != nil {
			return err
		}
	}
	bytes, err := redisBytes(ctx, s.admin)
	if err != nil {
		return err
	}
	r.note("redis_bytes_per_idle_limit", float64(bytes)/idleLimits)
	return database.Empty(s.admin)
}

// waitingBytes is what a call takes in Redis that waits for its turn.
func waitingBytes(ctx context.Context, s *session, r *record) error {
	client := s.client()
	defer client.Close()
	limiter, err := newLimiter(client, slow(s.fresh(), 1), 0)
	if err != nil {
		return err
	}
	defer limiter.Close()
	if err := limiter.Wait(ctx); err != nil { // the permit that was there
		return err
	}
	before, err := redisBytes(ctx, s.admin)
	if err != nil {
		return err
	}
	group, reserving := errgroup.WithContext(ctx)
	for range waitingCalls {
		group.Go(func() error {
			_, err := limiter.Reserve(reserving)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	after, err := redisBytes(ctx, s.admin)
	if err != nil {
		return err
	}
	r.note("redis_bytes_per_waiting_call", float64(after-before)/waitingCalls)
	return database.Empty(s.admin)
}

// keyBytes is what a result of For takes in the process, besides the key itself.
func keyBytes(s *session, r *record) error {
	client := s.client()
	defer client.Close()
	limiter, err := newLimiter(client, plenty(s.fresh()), 0)
	if err != nil {
		return err
	}
	defer limiter.Close()
	keys := make([]string, keptKeys)
	for i := range keys {
		keys[i] = fmt.Sprintf("tenant-%d", i)
	}
	kept := make([]*reserve.Limiter, keptKeys)
	before := heap()
	for i, key := range keys {
		kept[i] = limiter.For(key)
	}
	after := heap()
	runtime.KeepAlive(kept)
	runtime.KeepAlive(keys)
	r.note("process_bytes_per_key", float64(after-before)/keptKeys)
	return nil
}

// heap is what the process holds, in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what pools let go in the first goes in the second
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// redisBytes is the sum of MEMORY USAGE over all keys.
func redisBytes(ctx context.Context, client *redis.Client) (int64, error) {
	var (
		mu    sync.Mutex
		total int64
	)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(poolSize)
	for keys := client.Scan(ctx, 0, "", 1000).Iterator(); keys.Next(ctx); {
		key := keys.Val()
		group.Go(func() error {
			bytes, err := client.MemoryUsage(ctx, key, 0).Result() // 0 samples: all elements
			mu.Lock()
			total += bytes
			mu.Unlock()
			return err
		})
	}
	return total, group.Wait()
}
