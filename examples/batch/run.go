package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/fleetpace/fleetpace/internal/bare"
	"github.com/fleetpace/fleetpace/internal/chart"
	"github.com/fleetpace/fleetpace/internal/example"
	"github.com/fleetpace/fleetpace/internal/progress"
)

// run runs the program for cfg. It returns a report as soon as there is something to report, also
// together with an error.
func run(ctx context.Context, cfg *config, stderr *os.File) (_ *report, err error) {
	if cfg.api == apiLLM {
		return runLLM(ctx, cfg, stderr)
	}
	// The input, Redis and the journal are checked first, before any call is paid for.
	records, err := example.ReadInput(cfg.in, cfg.idField)
	if err != nil {
		return nil, err
	}
	api, demo := cfg.api, (*example.AddressAPI)(nil)
	if api == "" {
		demo, err = example.StartAddresses(cfg.limit.Rate(), cfg.limit.MaxBurst())
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, demo.Close()) }()
		api = demo.URL
	}
	client := newAPIClient(api, cfg.header, cfg.concurrency)
	defer client.close()
	turns, err := openTurns(ctx, cfg.redis, api, cfg.limit, cfg.outage)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, turns.close()) }()
	if err := turns.redis.Monitor(cfg.monitor, stderr); err != nil {
		return nil, err
	}

	results, todo, err := cfg.resume(records, stderr)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, results.Close()) }()

	skipped := len(records) - len(todo)
	bar := progress.New(stderr, "batch", len(records))
	bar.Set(skipped)
	defer context.AfterFunc(ctx, func() { bar.Describe("stopping, calls in flight are finished") })()
	p := &pipeline{
		turns:       turns,
		api:         client,
		journal:     results,
		concurrency: cfg.concurrency,
		changed: func(t tally) {
			bar.Set(skipped + t.done + t.failed)
			if ctx.Err() == nil {
				bar.Describe(t.String())
			}
		},
	}
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	sleeper := bare.Watch(watching)
	err = p.run(ctx, todo)
	beside := sleeper.Figures()
	bar.Close()

	var judge example.Referee = client.meter
	if demo != nil {
		judge = demo.Provider
	}
	rep := newReport(cfg, len(records), skipped, p.tally, judge.Summary(), beside)
	if calls := judge.History(); cfg.chart != "" && len(calls) > 0 {
		err = errors.Join(err, chart.Requests(cfg.chart, "Requests of a batch job against the limit of its API",
			calls, chartBin(cfg.limit.Rate()), cfg.limit.Rate()))
	}
	return rep, err
}

// resume opens the journal, and returns the records that are not done yet.
func (c *config) resume(records []example.Record, stderr *os.File) (*example.Journal, []example.Record, error) {
	var err error
	if c.out == "" {
		if c.out, err = temporaryFile(); err != nil {
			return nil, nil, err
		}
	}
	results, dropped, err := example.OpenJournal(c.out)
	if err != nil {
		return nil, nil, err
	}
	if dropped > 0 {
		fmt.Fprintf(stderr, "batch: %s: cut off a torn last line of %d bytes; its record is called again\n", c.out, dropped)
	}
	var todo []example.Record
	for _, r := range records {
		if !results.IsDone(r.ID) {
			todo = append(todo, r)
		}
	}
	if done := len(records) - len(todo); done > 0 {
		fmt.Fprintf(stderr, "batch: %d of %d records were done before\n", done, len(records))
	}
	return results, todo, nil
}

// temporaryFile makes an empty file. A default in the working directory would be left in a
// checkout, and a second run without flags would find all records done.
func temporaryFile() (path string, err error) {
	file, err := os.CreateTemp("", "batch-results-*.jsonl")
	if err != nil {
		return "", fmt.Errorf("-out: %w", err)
	}
	if err := file.Close(); err != nil {
		return "", fmt.Errorf("-out: %w", err)
	}
	return file.Name(), nil
}

// chartBin is 100 ms or, for a slow limit, the time of at least one call.
func chartBin(perSecond float64) time.Duration {
	bin := 100 * time.Millisecond
	for perSecond*bin.Seconds() < 1 {
		bin *= 10
	}
	return bin
}

// String is the text that the progress display shows after its numbers.
func (t tally) String() string {
	s := ""
	if t.failed > 0 {
		s = fmt.Sprintf("%d failed, ", t.failed)
	}
	if t.retried == 0 {
		return s + "no retries"
	}
	s += fmt.Sprintf("%d retried", t.retried)
	// The text is short, because it shares a line with the bar.
	var status *statusError
	if errors.As(t.lastRetry, &status) {
		s += fmt.Sprintf(" (last: %d)", status.code)
	} else if t.lastRetry != nil {
		s += fmt.Sprintf(" (last: %.40s)", t.lastRetry.Error())
	}
	return s
}
