package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/wire"
	"github.com/fleetpace/fleetpace/lua"
)

// memory measures what limits, places and names take, as MEMORY USAGE says. The growth of
// the whole server would tell of the buffers of connections, too, which come and go.
func (b *bench) memory(ctx context.Context, c *calibration) error {
	// What the first calls leave (scripts, the connection's buffers) belongs to an
	// empty server.
	me := newCaller(b.client, 0)
	idle, lined := b.limit(stored, "memory", "1234"), b.limit(slow, "memory", "5678")
	for _, l := range []*wire.Limit{idle, idle, lined, lined, lined} {
		if _, err := me.ask(ctx, []*wire.Limit{l}, 1, nil); err != nil {
			return err
		}
	}
	f, err := read(ctx, b.client)
	if err != nil {
		return err
	}
	c.ServerBytes = round(f["memory"])
	if c.State, err = b.used(ctx, idle.Keys[0]); err != nil {
		return err
	}
	if c.Lined, err = b.used(ctx, lined.Keys[0]); err != nil {
		return err
	}
	c.Places, err = b.sizes(ctx, func(key string, n int) (keys []string, err error) {
		keys = b.limit(slow, "memory", key).Keys[1:2]
		places := make([]redis.Z, n)
		for i := range places {
			places[i] = redis.Z{Score: float64(time.Now().UnixMicro() + int64(i)), Member: wire.CallID(member(i%32), int64(100_000+i)) + ":1"}
		}
		return keys, b.client.ZAdd(ctx, keys[0], places...).Err()
	})
	if err != nil {
		return fmt.Errorf("memory of places: %w", err)
	}
	c.Name, err = b.sizes(ctx, func(key string, n int) ([]string, error) {
		name := nameOf(lua.BeatKeys(b.prefix, "", "memory-"+key), 100, "100/s burst 10")
		if err := b.addProcesses(ctx, name, 0, n-1); n > 1 && err != nil {
			return nil, err
		}
		return append(name.Life, name.Keys...), b.beatOf(ctx, n, name)
	})
	if err != nil {
		return fmt.Errorf("memory of names: %w", err)
	}
	return nil
}

// sizes measures keys with four numbers of items: two of which a sorted set is packed, two
// that are not.
func (b *bench) sizes(ctx context.Context, add func(key string, n int) ([]string, error)) (size, error) {
	packed, err := b.packed(ctx)
	if err != nil {
		return size{}, err
	}
	var samples []sample
	for _, n := range []int{1, packed, 8 * packed, 64 * packed} {
		keys, err := add(strconv.Itoa(n), n)
		if err != nil {
			return size{}, err
		}
		bytes, err := b.used(ctx, keys...)
		if err != nil {
			return size{}, err
		}
		samples = append(samples, sample{float64(n), bytes})
	}
	return size{Packed: through(samples[0], samples[1]), Table: through(samples[2], samples[3]), Most: float64(packed)}, nil
}

// packed is how many entries of a sorted set this server packs.
func (b *bench) packed(ctx context.Context) (int, error) {
	for _, name := range []string{"zset-max-listpack-entries", "zset-max-ziplist-entries"} { // 7.0, and before
		config, err := b.client.ConfigGet(ctx, name).Result()
		if err != nil {
			return 0, err
		}
		if text, ok := config[name]; ok {
			return strconv.Atoi(text)
		}
	}
	return 0, fmt.Errorf("CONFIG GET knows no zset-max-listpack-entries")
}

// used is how many bytes keys take.
func (b *bench) used(ctx context.Context, keys ...string) (bytes float64, err error) {
	for _, key := range keys {
		used, err := b.client.MemoryUsage(ctx, key, 0).Result()
		if err != nil {
			return 0, err
		}
		bytes += float64(used)
	}
	return bytes, nil
}
