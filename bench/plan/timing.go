package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/fleetpace/fleetpace/internal/wire"
	"github.com/fleetpace/fleetpace/lua"
)

// caller makes script calls as one process does.
type caller struct {
	client redis.UniversalClient
	wire.Caller
	number int64 // of the last call
}

func newCaller(client redis.UniversalClient, i int) *caller {
	return &caller{client: client, Caller: wire.Caller{
		Process: member(i), Run: strings.Repeat("c0ffee42", 5), Horizon: 2 * time.Millisecond, Near: 2 * time.Millisecond, Grace: time.Minute,
	}}
}

func member(i int) string { return fmt.Sprintf("%016x", uint64(i+1)*0x9E3779B97F4A7C15) }

var (
	stored = wire.Terms{Kind: "p", A: 10, B: 1_000_000} // permits are there
	scarce = wire.Terms{Kind: "p", A: 100, B: 1}        // calls wait, if enough do
	slow   = wire.Terms{Kind: "p", A: 60e6, B: 1}       // calls wait
)

func (b *bench) limit(terms wire.Terms, name, key string) *wire.Limit {
	return wire.NewLimit(terms, lua.Keys(b.prefix, "", name, terms.Kind, key), &wire.Name{})
}

// place is a call that waits.
type place struct{ number, tag int64 }

// ask asks for so many calls, of one limit after the other: for those that wait there, or,
// where places is nil, for new ones. It returns those that wait then.
func (c *caller) ask(ctx context.Context, limits []*wire.Limit, calls int, places []place) (left map[int]place, err error) {
	items := make([]wire.Item, calls)
	for i := range items {
		var p place
		if places != nil {
			p = places[i]
		} else {
			c.number++
			p.number = c.number
		}
		items[i] = wire.Item{Count: 1, Number: p.number, Parts: []wire.Part{{Limit: i % len(limits), Cost: 1, Tag: p.tag}}}
	}
	c.Serial++
	call := &wire.Call{Caller: c.Caller, Client: c.client, Limits: limits, Now: time.Now()}
	left = map[int]place{}
	var refused error
	reply, answers, err := wire.Ask(ctx, call, items)
	for i := range answers {
		for k := range answers[i].Count {
			a := answers[i].At(k)
			if refused = errors.Join(refused, a.Refused); a.Refused == nil && !a.Turn {
				left[i] = place{items[i].Number, a.Tags[0]}
			}
		}
	}
	if err := errors.Join(err, refused, reply.AnyProblem()); err != nil {
		return nil, err
	}
	call.Learn(&reply, time.Now())
	return left, nil
}

// verbs measures the scripts, each with few items and with many.
func (b *bench) verbs(ctx context.Context, c *calibration) error {
	for _, v := range []struct {
		name string
		to   *verb
		kind func(context.Context) ([]int, work, error)
	}{{"common", &c.Common, b.common}, {"waiting", &c.Waiting, b.waiting}, {"beat", &c.Beat, b.beat}} {
		sizes, call, err := v.kind(ctx)
		if err == nil {
			*v.to, err = b.verb(ctx, sizes, call)
		}
		if err == nil && v.name == "common" {
			err = b.idle(ctx, c, call)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
	}
	return nil
}

// work is one script call of a worker.
type work func(ctx context.Context, worker, items int) error

// common asks for a call of each of some limits, where permits are stored.
func (b *bench) common(ctx context.Context) ([]int, work, error) {
	callers, limits := make([]*caller, workers), make([][]*wire.Limit, workers)
	call := func(ctx context.Context, worker, n int) error {
		left, err := callers[worker].ask(ctx, limits[worker][:n], n, nil)
		if err == nil && len(left) > 0 {
			return fmt.Errorf("%d calls of %d found no permits", len(left), n)
		}
		return err
	}
	for worker := range workers {
		callers[worker] = newCaller(b.client, worker)
		for i := range mostLimits {
			limits[worker] = append(limits[worker], b.limit(stored, "common-"+strconv.Itoa(worker), strconv.Itoa(i)))
		}
		// Twice, as a limit of which nothing is known is a case of its own.
		for range 2 {
			if err := call(ctx, worker, mostLimits); err != nil {
				return nil, nil, err
			}
		}
	}
	return []int{1, 10, mostLimits}, call, nil
}

// waiting asks, at some limits, by turns for a new call, which waits behind others, and for
// the first that waits, which has its turn.
func (b *bench) waiting(ctx context.Context) ([]int, work, error) {
	const line = 100 // calls that wait: farther than the horizon
	callers, limits, places := make([]*caller, workers), make([][]*wire.Limit, workers), make([][][]place, workers)
	call := func(ctx context.Context, worker, n int) error {
		lines := places[worker]
		var first []place
		if !slices.ContainsFunc(lines[:n], func(l []place) bool { return len(l) < line }) {
			for i := range n {
				first = append(first, lines[i][0])
				lines[i] = lines[i][1:]
			}
		}
		left, err := callers[worker].ask(ctx, limits[worker][:n], n, first)
		for i, p := range left {
			if first != nil {
				lines[i] = append([]place{p}, lines[i]...)
			} else {
				lines[i] = append(lines[i], p)
			}
		}
		return err
	}
	for worker := range workers {
		callers[worker], places[worker] = newCaller(b.client, worker), make([][]place, mostWaiting)
		for i := range mostWaiting {
			limits[worker] = append(limits[worker], b.limit(scarce, "waiting-"+strconv.Itoa(worker), strconv.Itoa(i)))
		}
		for i := range limits[worker] {
			left, err := callers[worker].ask(ctx, limits[worker][i:i+1], 2*line, nil)
			if err != nil {
				return nil, nil, err
			}
			for j := range 2 * line {
				if p, ok := left[j]; ok {
					places[worker][i] = append(places[worker][i], p)
				}
			}
		}
	}
	return []int{1, 4, mostWaiting}, call, nil
}

// beat is heartbeats under names that so many processes use.
func (b *bench) beat(ctx context.Context) ([]int, work, error) {
	sizes := []int{1, 30, 300}
	names := map[int][]*wire.Name{}
	for _, n := range sizes {
		for worker := range workers {
			name := nameOf(lua.BeatKeys(b.prefix, "", fmt.Sprintf("beat-%d-%d", n, worker)), 1, "1/s")
			names[n] = append(names[n], name)
			if err := b.addProcesses(ctx, name, workers, n); err != nil {
				return nil, nil, err
			}
		}
	}
	return sizes, func(ctx context.Context, worker, n int) error {
		return b.beatOf(ctx, worker, names[n][worker])
	}, nil
}

// nameOf is a name that has the keys of a heartbeat.
func nameOf(keys []string, pace float64, limit string) *wire.Name {
	return &wire.Name{Life: keys[:2], Keys: keys[2:], Kind: "p", Pace: pace, Limit: limit}
}

// beatOf is a heartbeat of a worker that uses one name.
func (b *bench) beatOf(ctx context.Context, worker int, name *wire.Name) error {
	_, err := wire.Beat(ctx, &wire.Heartbeat{
		Client: b.client, Process: member(worker), Dead: 5 * time.Second, Life: name.Life,
		Names: []wire.Told{{Name: name, Report: report.Text()}},
	})
	return err
}

// addProcesses lets so many processes live under a name, for an hour.
func (b *bench) addProcesses(ctx context.Context, name *wire.Name, from, n int) error {
	lives, limits := make([]redis.Z, n), make([]any, 0, 2*n)
	for i := range n {
		lives[i] = redis.Z{Score: float64(time.Now().Add(time.Hour).UnixMicro()), Member: member(from + i)}
		limits = append(limits, member(from+i), fmt.Sprintf("%g %s", name.Pace, name.Limit))
	}
	if err := b.client.ZAdd(ctx, name.Life[0], lives...).Err(); err != nil {
		return err
	}
	if err := b.client.HSet(ctx, name.Keys[0], limits...).Err(); err != nil {
		return err
	}
	text, err := json.Marshal(report)
	if err != nil {
		return err
	}
	reports := make([]any, 0, 2*n)
	for i := range n {
		reports = append(reports, member(from+i), text)
	}
	return b.client.HSet(ctx, name.Keys[1], reports...).Err()
}

// report is that of a process with one key.
var report = wire.Report{Host: "worker-1", PID: 4711, Started: 1_790_000_000, Policy: "local",
	Used: []wire.Usage{{Calls: 1_000_000, Permits: 1_000_000}}}

// verb is what a call costs by its size. All sizes have their turn in each round, so
// that what else the machine does meets them alike, and the least of all rounds counts:
// it only adds.
func (b *bench) verb(ctx context.Context, sizes []int, call work) (verb, error) {
	scripts, cpus := make([][]float64, len(sizes)), make([][]float64, len(sizes))
	for range b.rounds {
		for i, n := range sizes {
			f, err := b.metered(ctx, func(ctx context.Context, worker int) error {
				for end := time.Now().Add(b.round); time.Now().Before(end); {
					if err := call(ctx, worker, n); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return verb{}, err
			}
			scripts[i], cpus[i] = append(scripts[i], f["micros"]), append(cpus[i], f["cpu"])
		}
	}
	var script, cpu []sample
	for i, n := range sizes {
		script = append(script, sample{float64(n), slices.Min(scripts[i])})
		cpu = append(cpu, sample{float64(n), slices.Min(cpus[i])})
	}
	return verb{Script: fit(script), CPU: fit(cpu)}, nil
}

// idle measures calls of one limit with pauses between them.
func (b *bench) idle(ctx context.Context, c *calibration, call work) error {
	const pause, calls = 2 * time.Millisecond, 100
	var scripts, cpus []float64
	for range b.rounds {
		f, err := b.metered(ctx, func(ctx context.Context, worker int) error {
			for i := 0; worker == 0 && i < calls; i++ {
				time.Sleep(pause)
				if err := call(ctx, worker, 1); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		scripts, cpus = append(scripts, f["micros"]), append(cpus, f["cpu"])
	}
	c.IdleScript = round(slices.Min(scripts) / c.Common.Script.of(1))
	c.IdleCPU = round(slices.Min(cpus) / c.Common.CPU.of(1))
	return nil
}

// metered lets all workers work, and returns what a script call cost the server.
func (b *bench) metered(ctx context.Context, work func(ctx context.Context, worker int) error) (figures, error) {
	before, err := read(ctx, b.client)
	if err != nil {
		return nil, err
	}
	group, ctx2 := errgroup.WithContext(ctx)
	for worker := range workers {
		group.Go(func() error { return work(ctx2, worker) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	after, err := read(ctx, b.client)
	f := after.plus(before, -1)
	if err == nil && f["calls"] == 0 {
		return nil, errors.New("INFO commandstats counted no scripts")
	}
	return f.per(f["calls"]), err
}
