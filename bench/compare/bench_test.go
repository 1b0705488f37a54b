package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/metric"
)

// BenchmarkReservation is the closed loops for benchstat, whose -col /contender puts
// the contenders side by side:
//
//	go test ./compare -run '^$' -bench . -count 10 | benchstat -col /contender -
//
// FLEETPACE_METRICS=on collects metrics meanwhile, as a program with OpenTelemetry does.
func BenchmarkReservation(b *testing.B) {
	if os.Getenv("FLEETPACE_METRICS") == "on" {
		otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(metric.NewManualReader())))
	}
	s := onOwnRedis(b)
	for _, loop := range []struct {
		name               string
		goroutines, limits int
		contenders         []string
	}{
		{"uncontended", 1, 0, everyone},
		{"parallel-64", 64, 0, everyone},
		{"parallel-4096", 4096, 0, everyone},
		{"many-limits", 1024, 10_000, onRedis},
	} {
		var keys []string
		for i := range loop.limits {
			keys = append(keys, fmt.Sprintf("tenant-%d", i))
		}
		for _, name := range loop.contenders {
			// A slash would begin a key of its own.
			b.Run("case="+loop.name+"/contender="+strings.ReplaceAll(name, "/", "-"), func(b *testing.B) {
				benchmark(b, s, name, loop.goroutines, keys)
			})
		}
	}
}

func benchmark(b *testing.B, s *session, name string, goroutines int, keys []string) {
	c, _ := contenderNamed(name)
	client := s.client()
	defer client.Close()
	if err := connect(b.Context(), client); err != nil {
		b.Fatal(err)
	}
	a, err := c.open(client, plenty(s.fresh()))
	if err != nil {
		b.Fatal(err)
	}
	defer a.close()
	if err := visit(b.Context(), a, keys); err != nil {
		b.Fatal(err)
	}
	ctx := a.context(b.Context())
	b.ReportAllocs()
	commands, err := s.counted(ctx, c, func() error {
		b.ResetTimer()
		defer b.StopTimer()
		if goroutines == 1 {
			for range b.N {
				if err := a.ask(ctx, ""); err != nil {
					return err
				}
			}
			return nil
		}
		b.SetParallelism(max(1, goroutines/runtime.GOMAXPROCS(0)))
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				key := ""
				if len(keys) > 0 {
					key = keys[rand.IntN(len(keys))]
				}
				if err := a.ask(ctx, key); err != nil {
					b.Error(err)
					return
				}
			}
		})
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(commands)/float64(b.N), "commands/op")
}
