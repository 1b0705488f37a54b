package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/fleetpace/fleetpace/internal/bare"
	"github.com/fleetpace/fleetpace/internal/chart"
	"github.com/fleetpace/fleetpace/internal/example"
	"github.com/fleetpace/fleetpace/internal/progress"
	"github.com/fleetpace/fleetpace/llm"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport/bodies"
)

// apiLLM, as the value of -api, selects the demo of a language model.
const apiLLM = "llm"

// llmPreset returns the limits of the demo: requests, and tokens for about 16 calls of the sample per second. Calls
// reserve the most that they can cost.
func llmPreset(cfg *config) llm.Preset {
	p := llm.Preset{
		API: bodies.OpenAI, Model: "demo", Requests: max(1, int(60*cfg.limit.Rate())), Tokens: 360_000,
		Counting: llm.CountReserved, Burst: 420 * time.Millisecond, // several of the largest calls
	}
	if cfg.noSettle {
		p.Counting = llm.CountSum
	}
	return p
}

// llmNames are the names of the limits, in the order of llmLimits.
var llmNames = [2]string{"requests", "tokens"}

// llmLimits returns the limits of a preset as a Set keeps them.
func llmLimits(p llm.Preset) (limits [2]reserve.Limit) {
	for i, perMinute := range [2]int{p.Requests, p.Tokens} {
		limits[i] = reserve.PerMinute(float64(perMinute)).Burst(max(1, int(float64(perMinute)*p.Burst.Minutes())))
	}
	return limits
}

// runLLM sends the records to a language model, from worker processes; see run.
func runLLM(ctx context.Context, cfg *config, stderr *os.File) (_ *report, err error) {
	preset := llmPreset(cfg)
	limits := llmLimits(preset)
	records, err := readPrompts(cfg, limits[1].MaxBurst())
	if err != nil {
		return nil, err
	}
	model, err := example.StartLLM(limits[0], limits[1])
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	server, err := example.OpenRedis(ctx, cfg.redis)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if err := server.Monitor(cfg.monitor, stderr); err != nil {
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
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	sleeper := bare.Watch(watching)
	l := &lead{journal: results, todo: todo, workers: make(map[string]int)}
	l.changed = func(t tally) {
		bar.Set(skipped + t.done + t.failed)
		if ctx.Err() == nil {
			bar.Describe(t.String())
		}
	}
	err = l.run(ctx, cfg.workers, setup{
		RedisURL: server.URL, API: model.URL, Preset: preset, Outage: cfg.outage,
		Concurrency: max(1, cfg.concurrency/cfg.workers),
	}, stderr)
	beside := sleeper.Figures()
	bar.Close()

	rep := newLLMReport(cfg, len(records), skipped, l, limits, model, beside)
	if calls := model.Judges[0].History(); cfg.chart != "" && len(calls) > 0 {
		err = errors.Join(err, chart.Requests(cfg.chart, "Requests of a fleet to a language model; the limit of its "+rep.Tightest+" is the tightest",
			calls, time.Second, limits[0].Rate()))
	}
	return rep, err
}

// readPrompts reads the records, and refuses records that the API could not accept.
func readPrompts(cfg *config, most int) ([]example.Record, error) {
	if cfg.in == "" {
		return example.SamplePrompts(sampleSize), nil
	}
	records, err := example.ReadInput(cfg.in, cfg.idField)
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		var p example.Prompt
		switch err := json.Unmarshal(r.Body, &p); {
		case err != nil:
			return nil, fmt.Errorf("%s: record %s: %w", cfg.in, r.ID, err)
		case p.Prompt == "" || p.MaxTokens < 1:
			return nil, fmt.Errorf("%s: record %s: want a prompt, and max_tokens of at least 1", cfg.in, r.ID)
		case p.Estimate() > most:
			return nil, fmt.Errorf("%s: record %s: prompt and max_tokens may cost %d tokens: want at most %d, the burst of the limit",
				cfg.in, r.ID, p.Estimate(), most)
		}
	}
	return records, nil
}

// sampleSize is enough for a run of about half a minute.
const sampleSize = 600
