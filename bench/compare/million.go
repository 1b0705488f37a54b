package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fleetpace/fleetpace/bench/internal/database"
)

const (
	million  = 1_000_000
	portion  = 50_000 // keys, after which Redis is emptied
	visitors = 1024
)

// runMemoryMillion visits a million keys once and looks at the heap. Redis is
// emptied meanwhile, as it holds each limit for a minute. It takes as long as it takes:
// some minutes.
func runMemoryMillion(ctx context.Context, s *session, t trial) ([]*record, error) {
	client := s.client()
	defer client.Close()
	if err := connect(ctx, client); err != nil {
		return nil, err
	}
	limiter, err := newLimiter(client, plenty(s.fresh()), 0)
	if err != nil {
		return nil, err
	}
	defer limiter.Close()
	r := newRecord(t.name, fleetpaceName)
	before := heap()
	peak := before
	began := time.Now()
	commands, err := s.counted(ctx, t.contenders[0], func() error {
		for from := 0; from < million; from += portion {
			s.describe(fmt.Sprintf("%s %d keys", t.name, from))
			group, ctx := errgroup.WithContext(ctx)
			group.SetLimit(visitors)
			for i := from; i < from+portion; i++ {
				group.Go(func() error { return limiter.For(fmt.Sprintf("tenant-%d", i)).Wait(ctx) })
			}
			if err := group.Wait(); err != nil {
				return err
			}
			if err := database.Empty(s.admin); err != nil {
				return err
			}
			peak = max(peak, heap())
			s.advance(t.time * portion / million)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	elapsed := time.Since(began)
	r.note(nsPerOp, float64(elapsed)/million)
	r.note(opsPerSec, million/elapsed.Seconds())
	r.note(cmdsPerOp, float64(commands)/million)
	r.note("process_bytes_before", float64(before))
	r.note("process_bytes_peak", float64(peak))
	r.note("process_bytes_after", float64(heap()))
	return []*record{r}, nil
}
