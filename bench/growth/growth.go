// Package growth measures what a turn costs Redis where many calls wait at many keys, in many
// processes: it should not grow with any of these.
package growth

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/fleetpace/fleetpace/bench/internal/redisserver"
	"github.com/fleetpace/fleetpace/internal/progress"
	"github.com/fleetpace/fleetpace/reserve"
)

// Usage explains the measurement and introduces its flags.
const Usage = `Fleets of several processes (clients of their own in this one), of which each has calls waiting at
each of many keys of one limiter. Each key allows one call per second. The keys' turns come at the same
moments, or are spread over the second: then fewer calls of a process share a trip. "used" is turns / the
turns that were possible; script calls and the time that Redis spent in them are per turn.

Flags:
`

// sized is a fleet.
type sized struct {
	processes, keys, waiting int
	together                 bool // The turns of all keys come at the same moments.
}

var fleets = []sized{
	{10, 200, 2, true}, {20, 500, 1, true}, {50, 500, 1, true},
	{10, 200, 2, false}, {20, 500, 1, false}, {50, 500, 1, false},
}

// Run measures each fleet, and prints a row per fleet.
func Run(ctx context.Context, fs *flag.FlagSet, args []string, stdout io.Writer, stderr *os.File) error {
	length := fs.Duration("length", 15*time.Second, "of each measurement")
	settle := fs.Duration("settle", 10*time.Second, "before it")
	only := fs.String("only", "", "one size, as processes x keys x calls waiting per process and key, such as 10x200x2")
	if err := fs.Parse(args); err != nil {
		return err
	}
	some := fleets
	if *only != "" {
		var g sized
		if n, _ := fmt.Sscanf(strings.ReplaceAll(*only, "x", " "), "%d %d %d", &g.processes, &g.keys, &g.waiting); n < 3 || min(g.processes, g.keys, g.waiting) < 1 {
			return fmt.Errorf("-only: want three numbers above 0, such as 10x200x2, got %q", *only)
		}
		some = []sized{g, g}
		some[0].together = true
	}
	fmt.Fprintln(stdout, time.Now().Format(time.DateOnly))
	t := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "processes × keys × waiting\tturns of the keys\tturns/s\tused\tscript calls\tscript µs\t")
	for _, g := range some {
		turns, calls, micros, err := g.measure(ctx, *settle, *length, stderr)
		if err = cmp.Or(ctx.Err(), err); err != nil {
			return err
		}
		when := "spread"
		if g.together {
			when = "at once"
		}
		fmt.Fprintf(t, "%d × %d × %d\t%s\t%.0f\t%.3f\t%.2f\t%.0f\t\n", g.processes, g.keys, g.waiting, when, turns, turns/float64(g.keys), calls/turns, micros/turns)
	}
	return t.Flush()
}

// measure returns turns, script calls and their microseconds, all per second.
func (g sized) measure(ctx context.Context, settle, length time.Duration, stderr *os.File) (turns, calls, micros float64, err error) {
	server, err := redisserver.Start()
	if err != nil {
		return 0, 0, 0, err
	}
	defer server.Stop()
	playing, stop := context.WithCancel(ctx)
	defer stop()
	var done atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	for range g.processes {
		client := server.Client()
		defer func() { _ = client.Close() }()
		limiter, err := reserve.New(client, reserve.Config{Name: "growth", Limit: reserve.PerSecond(1)})
		if err != nil {
			return 0, 0, 0, err
		}
		defer func() { _ = limiter.Close() }()
		for i := range g.keys * g.waiting {
			phase := 0.0
			if !g.together {
				_, phase = math.Modf(float64(i%g.keys) * math.Phi)
			}
			keyed := limiter.For(strconv.Itoa(i % g.keys))
			all.Go(func() {
				time.Sleep(time.Duration(phase * float64(time.Second)))
				for playing.Err() == nil {
					switch err := keyed.Wait(playing); {
					case err == nil:
						done.Add(1)
					case playing.Err() == nil:
						failed.Store(&err)
						return
					}
				}
			})
		}
	}
	defer all.Wait()
	defer stop()
	bar := progress.New(stderr, fmt.Sprintf("%d × %d × %d, seconds", g.processes, g.keys, g.waiting), int((settle + length).Seconds()))
	defer bar.Close()
	second := 0
	pass := func(d time.Duration) {
		for end := time.Now().Add(d); time.Now().Before(end) && playing.Err() == nil; bar.Set(second) {
			time.Sleep(min(time.Second, time.Until(end)))
			second++
		}
	}
	pass(settle)
	before, err := server.Work(ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	had, began := done.Load(), time.Now()
	pass(length)
	took := time.Since(began).Seconds()
	turns = float64(done.Load()-had) / took
	after, err := server.Work(ctx)
	work := after.Less(before)
	if one := failed.Load(); one != nil {
		err = *one
	}
	return turns, work.Scripts / took, work.Micros / took, err
}
