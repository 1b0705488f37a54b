package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// BenchmarkWait measures a call whose permit is available, by how many calls of the process run at
// the same time. It alternates with a bare PING.
func BenchmarkWait(b *testing.B) {
	server := redistest.New(b)
	client, ctx := server.Client(b), context.Background()
	limiter, err := reserve.New(client, reserve.Config{
		Name: "bench", Prefix: redistest.Prefix(b), Limit: reserve.PerSecond(1e6).Burst(1e9),
	})
	require.NoError(b, err)
	defer func() { _ = limiter.Close() }()
	require.NoError(b, limiter.Wait(ctx))

	for _, callers := range []int{1, 64, 1024} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			var wait, ping time.Duration
			for range 2 {
				wait += together(callers, b.N, func() error { return limiter.Wait(ctx) })
				ping += together(callers, b.N, func() error { return client.Ping(ctx).Err() })
			}
			b.ReportMetric(float64(wait.Nanoseconds())/float64(2*b.N), "ns/wait")
			b.ReportMetric(float64(ping.Nanoseconds())/float64(2*b.N), "ns/ping")
			b.ReportMetric(float64(wait)/float64(ping), "pings/wait")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkSlots compares calls of 5 to 50 ms with slots and without a limit, alternating. There
// are more slots than callers.
func BenchmarkSlots(b *testing.B) {
	const slots, callers, rounds = 40, 32, 2
	limiter, err := reserve.New(redistest.New(b).Client(b), reserve.Config{
		Name: "bench", Prefix: redistest.Prefix(b), Limit: reserve.Concurrent(slots),
	})
	require.NoError(b, err)
	defer func() { _ = limiter.Close() }()
	call := func() error {
		time.Sleep(5*time.Millisecond + rand.N(45*time.Millisecond))
		return nil
	}
	var free, limited time.Duration
	for range rounds {
		free += together(callers, b.N, call)
		limited += together(callers, b.N, func() error {
			held, err := limiter.Acquire(b.Context(), 1)
			if err != nil {
				return err
			}
			defer held.Release()
			return call()
		})
	}
	b.ReportMetric(float64(free)/float64(limited), "of-the-calls-without")
	b.ReportMetric(0, "ns/op")
}

// together makes n calls from this many goroutines and returns how long they took.
func together(callers, n int, call func() error) time.Duration {
	var all sync.WaitGroup
	start := time.Now()
	for i := range callers {
		all.Go(func() {
			for range (n + i) / callers {
				if err := call(); err != nil {
					panic(err)
				}
			}
		})
	}
	all.Wait()
	return time.Since(start)
}
