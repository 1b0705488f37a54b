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

	"github.com/fleetpace/fleetpace/reserve"
)

// llmWorker sends records to a language model, each call in the turn that it has under all
// limits at once.
type llmWorker struct {
	setup
	api    *apiClient
	limits []*reserve.Limiter
	turns  *reserve.Joint

	mu sync.Mutex // reports are whole lines
	up *json.Encoder
}

// workerMain is the main function of a worker process.
func workerMain() int {
	// Ctrl-C reaches the whole process group, but stopping is the parent's to lead.
	// Without SIGPIPE a write to a dead parent is an error like others.
	signal.Ignore(os.Interrupt, syscall.SIGPIPE)
	w := &llmWorker{up: json.NewEncoder(os.Stdout)}
	if err := w.run(os.Stdin); err != nil {
		w.report(outcome{Fatal: err.Error()})
		return 1
	}
	return 0
}

// run works until the parent says stop or is gone.
func (w *llmWorker) run(stdin io.Reader) (err error) {
	down := json.NewDecoder(stdin)
	if err := down.Decode(&w.setup); err != nil || w.Concurrency == 0 {
		return fmt.Errorf("the first line on stdin is not a setup: this is a worker process; run the program without %s", workerArgument)
	}
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	server, err := openRedis(ctx, w.RedisURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.close()) }()
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
		var r record
		if down.Decode(&r) != nil {
			break // all is done, or the parent is gone
		}
		records.Go(func() {
			if err := w.process(ctx, r); err != nil {
				stop(err)
				w.report(outcome{Fatal: err.Error()})
			}
		})
	}
	stop(nil) // calls that wait for their turns are not made
	records.Wait()
	return nil
}

// open makes the limits, which are in one group, and puts them together.
func (w *llmWorker) open(server *redisServer) error {
	u, err := url.Parse(w.API)
	if err != nil {
		return err
	}
	for i, limit := range w.Limits.all() {
		estimated := llmNames[i] == "tokens" && !w.NoSettle
		l, err := reserve.New(server.client, reserve.Config{
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

// connect makes the connections to the API ahead, so that the first calls arrive as soon as
// the others. Where that fails, they do it themselves.
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
	_ = w.up.Encode(line) // the end of stdin says that the parent is gone
}

// process calls the API for one record, up to maxTries times, and reports what came of it.
// An error is about all records.
func (w *llmWorker) process(ctx context.Context, r record) error {
	var p prompt
	if err := json.Unmarshal(r.Body, &p); err != nil {
		return err // the parent has read it
	}
	line := outcome{Estimated: p.estimate()}
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
	line.Result = &result{ID: r.ID, Status: statusDone, Attempts: attempts, Answer: answer}
	var noTurn *turnError
	var status *statusError
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil // not done and not failed: the next run takes it up
	case errors.As(err, &noTurn):
		return noTurn
	case errors.As(err, &status) && status.aboutCaller():
		return fmt.Errorf("the API refuses us: %w (record %s)", err, r.ID)
	default:
		line.Result.Status, line.Result.Error = statusFailed, err.Error()
	}
	w.report(line)
	return nil
}

// attempt makes one call in its turn. It takes the most that the call can cost, and settles
// the difference when the answer says what it did cost.
func (w *llmWorker) attempt(ctx context.Context, r record, p prompt, line *outcome, attempts *int) (json.RawMessage, error) {
	turn, err := w.turns.Reserve(ctx, 1, p.estimate(), 1)
	if err != nil {
		return nil, &turnError{err}
	}
	if held := turn.HeldBy(); held != nil {
		line.HeldBy = llmNames[slices.Index(w.limits, held)]
	}
	finish := context.WithoutCancel(ctx) // a call that has its turn is finished, also when we are asked to stop
	if err := turn.Wait(ctx); err != nil {
		return nil, errors.Join(&turnError{err}, turn.Cancel(finish))
	}
	*attempts++
	answer, err := w.api.call(finish, r)
	if err != nil {
		return nil, err // what it cost, if anything, is not known
	}
	var c completion
	if err := json.Unmarshal(answer, &c); err != nil || c.Usage.TotalTokens < 1 {
		return nil, backoff.Permanent(fmt.Errorf("the answer does not say what it cost: %s", excerpt(answer)))
	}
	line.Used = c.Usage.TotalTokens
	if w.NoSettle {
		return answer, nil
	}
	// What is not settled stays charged, as an estimate that was right.
	_ = turn.Settle(finish, 1, c.Usage.TotalTokens, 1)
	return answer, nil
}
