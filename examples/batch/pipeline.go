package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/errgroup"

	"github.com/fleetpace/fleetpace/internal/example"
	"github.com/fleetpace/fleetpace/reserve"
)

// pipeline sends records to the API and results to the journal.
type pipeline struct {
	// turns gives each call its turn; it is a *reserve.Limiter. If it fails, the run stops, because
	// no call may be made without it.
	turns       interface{ Wait(context.Context) error }
	api         *apiClient
	journal     *example.Journal
	concurrency int
	// changed is called after every attempt, by one goroutine at a time.
	changed func(tally)

	mu    sync.Mutex
	tally tally
}

// tally counts what this run did.
type tally struct {
	done, failed, retried int
	lastRetry             error
}

// The first pause is short, because a retry also waits in the queue. A longer one would leave turns
// unused at the end of the input. All pauses of a record together take most of a minute.
const (
	maxTries     = 16
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 10 * time.Second
)

// run processes records until all are done or failed, or the context ends. It also stops if
// something breaks that concerns all records: the queue, the journal, or our access to the API. It
// always finishes calls in flight and records their results.
func (p *pipeline) run(ctx context.Context, records []example.Record) error {
	// More records are in work than the API can accept. Most of them wait in the queue, so a slow
	// response or a pause before a retry leaves no turn unused.
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(p.concurrency)
	for _, r := range records {
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return p.process(ctx, r)
		})
	}
	return group.Wait()
}

// process calls the API for one record, up to maxTries times, and records the result.
func (p *pipeline) process(ctx context.Context, r example.Record) error {
	attempts := 0
	answer, err := backoff.Retry(ctx,
		func() (json.RawMessage, error) {
			// Each attempt takes a turn, because the provider counts a retry like any
			// call. The wait for it comes after the backoff.
			if err := p.turns.Wait(ctx); err != nil {
				if errors.Is(err, reserve.ErrUnavailable) {
					return nil, &turnError{err} // no turn was given: try again
				}
				return nil, backoff.Permanent(&turnError{err})
			}
			attempts++
			// A call that has its turn is finished, also if the run is to stop:
			// otherwise we would pay for a response that is lost.
			return p.api.call(context.WithoutCancel(ctx), r)
		},
		backoff.WithBackOff(newBackOff()),
		backoff.WithMaxTries(maxTries),
		backoff.WithMaxElapsedTime(0), // a long wait in the queue is no reason to give up
		backoff.WithNotify(func(err error, _ time.Duration) {
			p.count(func(t *tally) { t.retried++; t.lastRetry = err })
		}),
	)

	var noTurn *turnError
	var status *statusError
	switch {
	case err == nil:
		if err := p.journal.Append(example.Result{ID: r.ID, Status: example.Done, Attempts: attempts, Answer: answer}); err != nil {
			return err
		}
		p.count(func(t *tally) { t.done++ })
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx) // neither done nor failed: the next run calls it again
	case errors.As(err, &noTurn):
		return noTurn
	case errors.As(err, &status) && status.aboutCaller():
		return fmt.Errorf("the API refuses us: %w (record %s)", err, r.ID)
	default:
		if err := p.journal.Append(example.Result{ID: r.ID, Status: example.Failed, Attempts: attempts, Error: err.Error()}); err != nil {
			return err
		}
		p.count(func(t *tally) { t.failed++ })
		return nil
	}
}

func newBackOff() backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = firstBackoff
	b.MaxInterval = maxBackoff
	return b
}

func (p *pipeline) count(change func(*tally)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.tally)
	if p.changed != nil {
		p.changed(p.tally)
	}
}

// turnError is a failure of the limiter, not of the API.
type turnError struct{ err error }

func (e *turnError) Error() string { return "wait for a turn: " + e.err.Error() }
func (e *turnError) Unwrap() error { return e.err }
