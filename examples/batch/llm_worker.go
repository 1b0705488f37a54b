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
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/fleetpace/fleetpace/internal/example"
	"github.com/fleetpace/fleetpace/reserve"
)

// llmWorker sends records to a language model. Each call waits for one turn from all limits
// together.
type llmWorker struct {
	setup
	api    *apiClient
	limits []*reserve.Limiter
	turns  *reserve.Joint

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
	defer func() { err = errors.Join(err, w.close()) }()
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

// open makes the limits, in one group, and their Joint.
func (w *llmWorker) open(server *example.Redis) error {
	u, err := url.Parse(w.API)
	if err != nil {
		return err
	}
	for i, limit := range w.Limits.all() {
		estimated := llmNames[i] == "tokens" && !w.NoSettle
		l, err := reserve.New(server.Client, reserve.Config{
			Name:    llmNames[i],
			Group:   "batch " + u.Host,
			Limit:   limit,
			Settles: estimated,
			Outage:  reserve.Outage{Policy: w.Outage},
		})
		if err != nil {
			return err
		}
		w.limits = append(w.limits, l)
	}
	w.turns, err = reserve.All(w.limits...)
	return err
}

func (w *llmWorker) close() error {
	var errs []error
	for _, l := range w.limits {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
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

// attempt makes one call in its turn. It takes the most permits that the call can cost, and settles
// the difference when the response states the real cost.
func (w *llmWorker) attempt(ctx context.Context, r example.Record, p example.Prompt, line *outcome, attempts *int) (json.RawMessage, error) {
	turn, err := w.turns.Reserve(ctx, 1, p.Estimate(), 1)
	if err != nil {
		return nil, &turnError{err}
	}
	if held := turn.HeldBy(); held != nil {
		line.HeldBy = llmNames[slices.Index(w.limits, held)]
	}
	finish := context.WithoutCancel(ctx) // a call that has its turn is finished, also if the worker is to stop
	if err := turn.Wait(ctx); err != nil {
		return nil, errors.Join(&turnError{err}, turn.Cancel(finish))
	}
	*attempts++
	answer, err := w.api.call(finish, r)
	if err != nil {
		return nil, err // the cost is unknown, so the estimate stays charged
	}
	var c example.Completion
	if err := json.Unmarshal(answer, &c); err != nil || c.Usage.TotalTokens < 1 {
		return nil, backoff.Permanent(fmt.Errorf("the answer does not say what it cost: %s", excerpt(answer)))
	}
	line.Used = c.Usage.TotalTokens
	if w.NoSettle {
		return answer, nil
	}
	// If Settle fails, the estimate stays charged.
	_ = turn.Settle(finish, 1, c.Usage.TotalTokens, 1)
	return answer, nil
}
