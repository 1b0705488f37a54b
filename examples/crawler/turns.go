package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/reserve"
)

const (
	// patience is how long a visit may wait for the turn of its host inside a
	// worker. When it would take longer, the task goes back to the frontier,
	// so that a slow host does not occupy all handlers of the fleet.
	patience = 15 * time.Second

	// fleetSlots bounds, for each host, the visits of the whole fleet that are
	// between asking for their host's turn and starting their request.
	//
	// Why: a visit waits for the turn of its host first and for the turn of the
	// crawl after that. When the crawl's line is long, turns of the host that
	// were well spaced may come out of it closer together than they went in.
	// With at most s visits on the way, a host sees at most s requests more in
	// any stretch of time than its limit allows. The demo's hosts accept that:
	// their buckets hold 10.
	fleetSlots = 6
)

// turns makes visits wait until they may send their request: first for their
// host's limit, then for the crawl's. It is safe for concurrent use.
type turns struct {
	redis   redis.UniversalClient
	perHost time.Duration // between two requests to one host
	slots   int           // per host, in this process
	crawl   *reserve.Limiter

	mu    sync.Mutex
	lines map[time.Duration]*reserve.Limiter // of hosts, by their interval
	gates map[string]chan struct{}           // by host; as many as the run has hosts
}

// newTurns shares qps requests per second among all processes that use the
// same Redis, and perHost per second among those that visit the same host.
//
// Burst is 1, so turns are evenly spaced. The demo's provider has a larger
// bucket with the same rate: its burst is there to absorb the jitter of the
// network, not to be used by the crawler.
func newTurns(client redis.UniversalClient, qps, perHost float64, processes int) (*turns, error) {
	crawl, err := reserve.New(client, reserve.Config{Name: "crawl", Limit: reserve.PerSecond(qps)})
	if err != nil {
		return nil, err
	}
	return &turns{
		redis:   client,
		perHost: reserve.PerSecond(perHost).Interval(),
		slots:   max(1, fleetSlots/processes),
		crawl:   crawl,
		lines:   make(map[time.Duration]*reserve.Limiter),
		gates:   make(map[string]chan struct{}),
	}, nil
}

// wait returns when a request to host may start; start it at once. crawlDelay
// is what the host's robots.txt asks for; the slower of that and the per-host
// limit counts. A *putBackError error means that the turn is too far away to wait
// for here; then, as with every error, no turn was used up.
func (t *turns) wait(ctx context.Context, host string, crawlDelay time.Duration) error {
	line, gate, err := t.of(host, crawlDelay)
	if err != nil {
		return err
	}
	impatient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case gate <- struct{}{}:
		defer func() { <-gate }()
	case <-impatient.Done():
		return waitError(ctx, "host "+host, impatient.Err())
	}
	if err := line.For(host).Wait(impatient); err != nil {
		return waitError(ctx, "host "+host, err)
	}
	return waitError(ctx, "the crawl", t.crawl.Wait(ctx))
}

func (t *turns) of(host string, crawlDelay time.Duration) (*reserve.Limiter, chan struct{}, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	gate, ok := t.gates[host]
	if !ok {
		gate = make(chan struct{}, t.slots)
		t.gates[host] = gate
	}
	// Limits count whole microseconds; rounding up keeps on the polite side.
	interval := (max(t.perHost, crawlDelay) + time.Microsecond - 1).Truncate(time.Microsecond)
	line, ok := t.lines[interval]
	if !ok {
		var err error
		line, err = reserve.New(t.redis, reserve.Config{Name: "crawl-host", Limit: reserve.Every(interval)})
		if err != nil {
			return nil, nil, err
		}
		t.lines[interval] = line
	}
	return line, gate, nil
}

// waitError sorts what can end a wait: the visit's own end stays what it is,
// everything else sends the task back to the frontier.
func waitError(ctx context.Context, of string, err error) error {
	var detail *reserve.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, reserve.ErrWouldMissDeadline) && errors.As(err, &detail):
		// Come back when the turn is near; it is not booked.
		return &putBackError{why: "the turn of " + of + " is far away", after: max(detail.Wait-patience/2, time.Second)}
	case errors.Is(err, context.DeadlineExceeded):
		return &putBackError{why: "many wait for the turn of " + of, after: patience}
	default:
		return &putBackError{why: fmt.Sprintf("no turn of %s: %v", of, err), after: time.Second}
	}
}

// close ends all waits and gives their numbers back.
func (t *turns) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	errs := []error{t.crawl.Close()}
	for _, line := range t.lines {
		errs = append(errs, line.Close())
	}
	return errors.Join(errs...)
}
