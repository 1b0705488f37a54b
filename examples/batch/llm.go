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
	"github.com/fleetpace/fleetpace/reserve"
)

// apiLLM, as the value of -api, selects the demo of a language model.
const apiLLM = "llm"

// llmLimits are the limits of the language model, as the fleet keeps them. The burst of the tokens is
// several times the largest cost of a call, because a full bucket takes back no permits of a settled
// call; see [reserve.Reservation.Settle].
type llmLimits struct {
	Requests reserve.Limit `json:"requests"`
	Tokens   reserve.Limit `json:"tokens"`
	Quota    reserve.Limit `json:"quota"` // of requests
}

// llmNames are the names of the limits, in their order.
var llmNames = [3]string{"requests", "tokens", "quota"}

func (l llmLimits) all() [3]reserve.Limit { return [3]reserve.Limit{l.Requests, l.Tokens, l.Quota} }

// newLLMLimits returns limits with tokens for about 16 calls of the sample per second, and a quota
// that is enough for all of them within one minute. The quota has a margin for calls that leave in
// one minute and arrive in the next.
func newLLMLimits(requests reserve.Limit) llmLimits {
	return llmLimits{
		Requests: requests,
		Tokens:   reserve.PerSecond(6000).Burst(2500),
		Quota:    reserve.Quota(1000, reserve.CalendarMinute).Margin(100 * time.Millisecond),
	}
}

// runLLM sends the records to a language model, from worker processes; see run.
func runLLM(ctx context.Context, cfg *config, stderr *os.File) (_ *report, err error) {
	limits := newLLMLimits(cfg.limit)
	records, err := readPrompts(cfg, limits.Tokens.MaxBurst())
	if err != nil {
		return nil, err
	}
	model, err := example.StartLLM(limits.Requests, limits.Tokens, limits.Quota)
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
	l := &lead{journal: results, todo: todo, heldBack: make(map[string]int), workers: make(map[string]int)}
	l.changed = func(t tally) {
		bar.Set(skipped + t.done + t.failed)
		if ctx.Err() == nil {
			bar.Describe(t.String())
		}
	}
	err = l.run(ctx, cfg.workers, setup{
		RedisURL: server.URL, API: model.URL, Limits: limits, Outage: cfg.outage,
		Concurrency: max(1, cfg.concurrency/cfg.workers), NoSettle: cfg.noSettle,
	}, stderr)
	beside := sleeper.Figures()
	bar.Close()

	rep := newLLMReport(cfg, len(records), skipped, l, model, beside)
	if calls := model.Judges[0].History(); cfg.chart != "" && len(calls) > 0 {
		err = errors.Join(err, chart.Requests(cfg.chart, "Requests of a fleet to a language model; the limit of its "+rep.Tightest+" is the tightest",
			calls, time.Second, limits.Requests.Rate()))
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
