package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// memory measures what limits and numbers take, as MEMORY USAGE says. The growth of the
// whole server would tell of the buffers of connections, too, which come and go.
func (b *bench) memory(ctx context.Context, c *calibration) error {
	packed, err := b.packed(ctx, "hash")
	if err != nil {
		return err
	}
	// What the first calls leave (scripts, the connection's buffers) belongs to an
	// empty server.
	l := newLine(b.prefix, "memory", "first", member(0))
	if _, err := l.take(ctx, b.client, stored, far, 1, l.id); err != nil {
		return err
	}
	fields, err := b.client.HLen(ctx, l.keys[0]).Result()
	if err != nil {
		return err
	}
	if err := b.addRecords(ctx, l, 1, 8*packed); err != nil {
		return err
	}
	if err := b.client.Del(ctx, l.keys[0]).Err(); err != nil {
		return err
	}
	r, err := read(ctx, b.client)
	if err != nil {
		return err
	}
	c.ServerBytes = round(r.memory)
	most := packed - int(fields) + 1 // records: one of the fields is a record

	c.State, err = b.sizes(most, []int{1, min(most, 100), 2 * packed, 8 * packed}, func(items int) (float64, error) {
		return b.grown(ctx, b.keysOf(items), func(i int) error {
			l := newLine(b.prefix, "memory", fmt.Sprintf("%d-%d", items, i), member(0))
			if _, err := l.take(ctx, b.client, stored, far, 1, l.id); err != nil || items == 1 {
				return err
			}
			return b.addRecords(ctx, l, 1, items-1)
		})
	})
	if err != nil {
		return fmt.Errorf("memory of limits: %w", err)
	}
	if packed, err = b.packed(ctx, "zset"); err != nil {
		return err
	}
	c.List, err = b.sizes(packed, []int{1, min(packed, 100), 4 * packed, 32 * packed}, func(items int) (float64, error) {
		return b.grown(ctx, b.keysOf(items), func(i int) error {
			key := newLine(b.prefix, "memory", fmt.Sprintf("%d-%d", items, i), "").keys[1]
			numbers := make([]redis.Z, items)
			for n := range numbers {
				numbers[n] = redis.Z{Score: float64(1_000_000 + n), Member: "1:" + member(i)[:16] + "-" + strconv.Itoa(100_000+n)}
			}
			if err := b.client.ZAdd(ctx, key, numbers...).Err(); err != nil {
				return err
			}
			return b.client.Expire(ctx, key, far).Err()
		})
	})
	if err != nil {
		return fmt.Errorf("memory of lists: %w", err)
	}
	return nil
}

// packed is how many entries of a hash or sorted set this server packs.
func (b *bench) packed(ctx context.Context, kind string) (int, error) {
	for _, name := range []string{kind + "-max-listpack-entries", kind + "-max-ziplist-entries"} { // 7.0, and before
		config, err := b.client.ConfigGet(ctx, name).Result()
		if err != nil {
			return 0, err
		}
		if text, ok := config[name]; ok {
			return strconv.Atoi(text)
		}
	}
	return 0, fmt.Errorf("CONFIG GET knows no %s-max-listpack-entries", kind)
}

// keysOf is how many keys of so many items are enough to measure one.
func (b *bench) keysOf(items int) int { return min(b.keys, max(20, 20*b.keys/items)) }

// sizes measures keys with four numbers of items: two packed ones, two that are not.
func (b *bench) sizes(most int, items []int, measure func(items int) (float64, error)) (size, error) {
	var samples []sample
	for _, n := range items {
		bytes, err := measure(n)
		if err != nil {
			return size{}, err
		}
		samples = append(samples, sample{float64(n), bytes})
	}
	return size{
		Packed: through(samples[0], samples[1]),
		Table:  through(samples[2], samples[3]),
		Most:   float64(most),
	}, nil
}

// grown is how many bytes each of n keys takes.
func (b *bench) grown(ctx context.Context, n int, add func(i int) error) (float64, error) {
	before, err := b.used(ctx)
	if err != nil {
		return 0, err
	}
	for i := range n {
		if err := add(i); err != nil {
			return 0, err
		}
	}
	after, err := b.used(ctx)
	return (after - before) / float64(n), err
}

// used is how many bytes the keys of the bench take.
func (b *bench) used(ctx context.Context) (bytes float64, err error) {
	scan := b.client.Scan(ctx, 0, b.prefix+":*", 1000).Iterator()
	for scan.Next(ctx) {
		used, err := b.client.MemoryUsage(ctx, scan.Val(), 0).Result()
		if err != nil {
			return 0, err
		}
		bytes += float64(used)
	}
	return bytes, scan.Err()
}
