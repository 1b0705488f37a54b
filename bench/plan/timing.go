package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

var (
	stored = pace{micros: 10, burst: 1_000_000} // permits are there
	scarce = pace{micros: 10_000, burst: 100}   // numbers wait
)

const far = 24 * time.Hour // a bound under which every number is final

// verbs measures the scripts, each with few items and with many.
func (b *bench) verbs(ctx context.Context, c *calibration) error {
	one := func(kind string, p pace) ([]*line, error) {
		lines, err := b.lines(ctx, kind, 1, p)
		if err != nil {
			return nil, err
		}
		var first []*line
		for _, l := range lines {
			first = append(first, l[0])
		}
		return first, nil
	}
	var err error
	if err = b.quick(ctx, c); err != nil {
		return fmt.Errorf("quick: %w", err)
	}
	lines, err := one("take", stored)
	if err != nil {
		return fmt.Errorf("take: %w", err)
	}
	c.Take, err = b.verb(ctx, []int{1, 16, 256}, func(ctx context.Context, worker, n int) error {
		_, err := lines[worker].take(ctx, b.client, stored, far, n, lines[worker].id)
		return err
	})
	if err != nil {
		return fmt.Errorf("take: %w", err)
	}
	if lines, err = one("lineup", scarce); err != nil {
		return fmt.Errorf("lineup: %w", err)
	}
	c.LineUp, err = b.verb(ctx, []int{1, 16, 256}, func(ctx context.Context, worker, n int) error {
		_, err := lines[worker].take(ctx, b.client, scarce, 0, n, lines[worker].id)
		return err
	})
	if err != nil {
		return fmt.Errorf("lineup: %w", err)
	}
	if lines, err = one("claim", scarce); err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	if c.Claim, err = b.claims(ctx, lines); err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	return nil
}

// id makes ids as long as those of reserve.
func (l *line) id(i int) string {
	return l.member + "-" + strconv.FormatInt(l.serial, 36) + "-" + strconv.FormatInt(int64(i), 36)
}

func member(i int) string { return fmt.Sprintf("%016x/1", uint64(i)*0x9E3779B97F4A7C15) }

// lines makes limits, so many per worker, that have the records of many processes.
func (b *bench) lines(ctx context.Context, kind string, limits int, p pace) ([][]*line, error) {
	all := make([][]*line, workers)
	for worker := range all {
		name := fmt.Sprintf("%s-%d", kind, worker)
		for i := range limits {
			l := newLine(b.prefix, name, strconv.Itoa(i), member(worker))
			all[worker] = append(all[worker], l)
			if _, err := l.take(ctx, b.client, p, far, 1, l.id); err != nil {
				return nil, err
			}
			if err := b.addRecords(ctx, l, 1000, records-1); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// addRecords puts the records of other processes into the state of a limit.
func (b *bench) addRecords(ctx context.Context, l *line, from, n int) error {
	fields := make([]any, 0, 2*n)
	for i := range n {
		fields = append(fields, "m:"+member(from+i), fmt.Sprintf("%d %d 1=%d;", l.seen, 123_456, 1_234_567))
	}
	return b.client.HSet(ctx, l.keys[0], fields...).Err()
}

func (b *bench) quick(ctx context.Context, c *calibration) error {
	lines, err := b.lines(ctx, "quick", mostLimits, stored)
	if err != nil {
		return err
	}
	permits := make([]int, mostLimits)
	for i := range permits {
		permits[i] = 1
	}
	call := func(ctx context.Context, worker, n int) error {
		gave, err := quick(ctx, b.client, stored, time.Second, lines[worker][:n], permits[:n])
		for i := range gave {
			if !gave[i] {
				return fmt.Errorf("limit %d of %d was not plain", i, n)
			}
		}
		return err
	}
	if c.Quick, err = b.verb(ctx, []int{1, 10, mostLimits}, call); err != nil {
		return err
	}
	return b.idle(ctx, c, call)
}

// idle measures calls of one limit with pauses between them.
func (b *bench) idle(ctx context.Context, c *calibration, call func(ctx context.Context, worker, n int) error) error {
	const pause, calls = 2 * time.Millisecond, 100
	var scripts, cpus []float64
	for range b.rounds {
		r, err := b.metered(ctx, func(ctx context.Context, worker int) error {
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
		scripts, cpus = append(scripts, r.micros/r.calls), append(cpus, r.cpu/r.calls)
	}
	c.IdleScript = round(slices.Min(scripts) / c.Quick.Script.of(1))
	c.IdleCPU = round(slices.Min(cpus) / c.Quick.CPU.of(1))
	return nil
}

// verb measures a call with so many items each, all workers at the same time.
func (b *bench) verb(ctx context.Context, sizes []int, call func(ctx context.Context, worker, items int) error) (verb, error) {
	return b.fitted(sizes, func(n int) (reading, error) {
		return b.metered(ctx, func(ctx context.Context, worker int) error {
			for end := time.Now().Add(b.round); time.Now().Before(end); {
				if err := call(ctx, worker, n); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// fitted is what a call costs by its size. All sizes have their turn in each round, so
// that what else the machine does meets them alike, and the least of all rounds counts:
// it only adds.
func (b *bench) fitted(sizes []int, measure func(n int) (reading, error)) (verb, error) {
	scripts, cpus := make([][]float64, len(sizes)), make([][]float64, len(sizes))
	for range b.rounds {
		for i, n := range sizes {
			r, err := measure(n)
			if err != nil {
				return verb{}, err
			}
			scripts[i], cpus[i] = append(scripts[i], r.micros/r.calls), append(cpus[i], r.cpu/r.calls)
		}
	}
	var script, cpu []sample
	for i, n := range sizes {
		script = append(script, sample{float64(n), slices.Min(scripts[i])})
		cpu = append(cpu, sample{float64(n), slices.Min(cpus[i])})
	}
	return verb{Script: fit(script), CPU: fit(cpu)}, nil
}

// claims measures claim, of numbers that were lined up before.
func (b *bench) claims(ctx context.Context, lines []*line) (verb, error) {
	calls := map[int]int{1: 300, 16: 60, mostRequests: 10}
	return b.fitted([]int{1, 16, mostRequests}, func(n int) (reading, error) {
		ids := make([][]string, workers)
		for worker, l := range lines {
			for len(ids[worker]) < n*calls[n] {
				_, err := l.take(ctx, b.client, scarce, 0, mostRequests, func(i int) string {
					ids[worker] = append(ids[worker], l.id(i))
					return l.id(i)
				})
				if err != nil {
					return reading{}, err
				}
			}
		}
		return b.metered(ctx, func(ctx context.Context, worker int) error {
			for i := range calls[n] {
				if _, err := lines[worker].claim(ctx, b.client, scarce, far, ids[worker][i*n:(i+1)*n]); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// metered lets all workers work, and returns what that cost the server.
func (b *bench) metered(ctx context.Context, work func(ctx context.Context, worker int) error) (reading, error) {
	before, err := read(ctx, b.client)
	if err != nil {
		return reading{}, err
	}
	group, ctx2 := errgroup.WithContext(ctx)
	for worker := range workers {
		group.Go(func() error { return work(ctx2, worker) })
	}
	if err := group.Wait(); err != nil {
		return reading{}, err
	}
	after, err := read(ctx, b.client)
	if err == nil && after.calls == before.calls {
		return reading{}, fmt.Errorf("INFO commandstats counted no scripts")
	}
	return after.minus(before), err
}

// census is what a take costs more because it counts the processes, per process: those
// of processes that are new do.
func (b *bench) census(ctx context.Context, takeMicros float64) (float64, error) {
	const many, calls = 1000, 200
	l := newLine(b.prefix, "census", "", member(0))
	if _, err := l.take(ctx, b.client, stored, far, 1, l.id); err != nil {
		return 0, err
	}
	if err := b.addRecords(ctx, l, calls+1, many); err != nil {
		return 0, err
	}
	before, err := read(ctx, b.client)
	if err != nil {
		return 0, err
	}
	for i := range calls {
		newcomer := newLine(b.prefix, "census", "", member(i+1))
		if _, err := newcomer.take(ctx, b.client, stored, far, 1, newcomer.id); err != nil {
			return 0, err
		}
	}
	after, err := read(ctx, b.client)
	if err != nil {
		return 0, err
	}
	r := after.minus(before)
	return round((r.micros/r.calls - takeMicros) / (many + calls/2)), nil
}
