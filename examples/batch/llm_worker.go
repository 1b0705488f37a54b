package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/fleetpace/fleetpace/internal/example"
	"github.com/fleetpace/fleetpace/llm"
	"github.com/fleetpace/fleetpace/reserve"
)

// llmWorker sends records to a language model.
type llmWorker struct {
	setup
	api *apiClient
	set *llm.Set

	mu sync.Mutex // so that reports are not mixed
	up *json.Encoder
}

// workerMain is the main function of a worker process.
func workerMain() int {
	// Ctrl-C reaches the whole process group, but the parent decides when workers stop. Without
	// SIGPIPE, a write to a dead parent is an ordinary error.
	signal.Ignore(os.Interrupt, syscall.SIGPIPE)
	w := &llmWorker{up: json.NewEncoder(os.Stdout)}
	if err := w.run(os.Stdin); err != nil {
		w.report(outcome{Fatal: err.Error()})
		return 1
	}
	return 0
}

// run works until the parent stops it or is gone.
func (w *llmWorker) run(stdin io.Reader) (err error) {
	down := json.NewDecoder(stdin)
	if err := down.Decode(&w.setup); err != nil || w.Concurrency == 0 {
		return fmt.Errorf("the first line on stdin is not a setup: this is a worker process; run the program without %s", example.WorkerArgument)
	}
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	server, err := example.OpenRedis(ctx, w.RedisURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if err := w.open(server); err != nil {
		return err
	}
	defer w.set.Close()
	w.api = newAPIClient(w.API, http.Header{}, w.Concurrency)
	defer w.api.close()
	w.connect(ctx)
	w.report(outcome{Ready: true})

	var records sync.WaitGroup
	for {
		var r example.Record
		if down.Decode(&r) != nil {
			break // all records are done, or the parent is gone
		}
		records.Go(func() {
			if err := w.process(ctx, r); err != nil {
				stop(err)
				w.report(outcome{Fatal: err.Error()})
			}
		})
	}
	stop(nil) // calls that still wait for their turns are not made
	records.Wait()
	return nil
}

// open makes the limits of the model.
func (w *llmWorker) open(server *example.Redis) (err error) {
	u, err := url.Parse(w.API)
	if err != nil {
		return err
	}
	w.set, err = llm.New(server.Client, llm.Config{Account: "batch " + u.Hostname() + " " + u.Port(), Preset: w.Preset, Outage: reserve.Outage{Policy: w.Outage}})
	return err
}

// connect makes connections to the API in advance, so that the first calls do not arrive later than
// others. If that fails, the calls connect themselves.
func (w *llmWorker) connect(ctx context.Context) {
	var all sync.WaitGroup
	for range w.Concurrency {
		all.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.API, nil)
			if err != nil {
				return
			}
			if resp, err := w.api.http.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
	all.Wait()
}

func (w *llmWorker) report(line outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.up.Encode(line) // if the parent is gone, stdin ends, too
}

// process calls the API for one record, up to maxTries times, and reports the result. An error
// concerns all records.
func (w *llmWorker) process(ctx context.Context, r example.Record) error {
	var p example.Prompt
	if err := json.Unmarshal(r.Body, &p); err != nil {
		return err // not reached: the parent has checked it
	}
	line := outcome{Estimated: p.Estimate()}
	attempts := 0
	answer, err := backoff.Retry(ctx,
		func() (json.RawMessage, error) {
			answer, err := w.attempt(ctx, r, p, &line, &attempts)
			var noTurn *turnError
			if errors.As(err, &noTurn) && !errors.Is(err, reserve.ErrUnavailable) {
				return nil, backoff.Permanent(err)
			}
			return answer, err
		},
		backoff.WithBackOff(newBackOff()),
		backoff.WithMaxTries(maxTries),
		backoff.WithMaxElapsedTime(0),
		backoff.WithNotify(func(error, time.Duration) { line.Retried++ }),
	)
	line.Result = &example.Result{ID: r.ID, Status: example.Done, Attempts: attempts, Answer: answer}
	var noTurn *turnError
	var status *statusError
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil // neither done nor failed: the next run calls it again
	case errors.As(err, &noTurn):
		return noTurn
	case errors.As(err, &status) && status.aboutCaller():
		return fmt.Errorf("the API refuses us: %w (record %s)", err, r.ID)
	default:
		line.Result.Status, line.Result.Error = example.Failed, err.Error()
	}
	w.report(line)
	return nil
}

// attempt makes one call in its turn. It reserves the most tokens that the call can cost, and settles what the response
// states.
func (w *llmWorker) attempt(ctx context.Context, r example.Record, p example.Prompt, line *outcome, attempts *int) (json.RawMessage, error) {
	call, err := w.set.Acquire(ctx, llm.Estimate{Input: len(p.Prompt), Max: p.MaxTokens})
	if err != nil {
		return nil, &turnError{err}
	}
	defer call.Close() // if the cost is unknown, the estimate stays charged
	*attempts++
	answer, err := w.api.call(context.WithoutCancel(ctx), r) // a call that has its turn is finished, also if the worker is to stop
	if err != nil {
		return nil, err
	}
	var c example.Completion
	if err := json.Unmarshal(answer, &c); err != nil || c.Usage.TotalTokens < 1 {
		return nil, backoff.Permanent(fmt.Errorf("the answer does not say what it cost: %s", excerpt(answer)))
	}
	line.Used = c.Usage.TotalTokens
	call.Saw(llm.Usage{Input: c.Usage.PromptTokens, Output: c.Usage.CompletionTokens})
	call.Done()
	return answer, nil
}
