package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/worker"
)

// stale is after how many intervals of its host a visit that does not stand in
// the crawl's line yet gives up the turn of its host.
//
// Why: a visit has the turn of its host first and waits for the turn of the crawl
// after that. Turns of a host that were well spaced may come out of that wait
// closer together. But in any stretch of time no more than this many come on top
// of what the host's limit allows, and those in the crawl's line: one for each
// process. The demo's hosts accept that: their buckets hold 10.
const stale = 3

// crawlBurst is how many requests of the whole crawl may come at once, after a time in
// which none did.
const crawlBurst = 3

// maxPause bounds what a host may ask for with Retry-After.
const maxPause = 10 * time.Minute

var errStale = errors.New("other visits of its host wait for the turn of the crawl")

// turns are the limits that a request needs: its host's and the crawl's. They
// are safe for concurrent use.
//
// A host's turns have a burst of 1, so they are evenly spaced. Those of the crawl have
// crawlBurst: a turn that the machine slept through may still be used, and no more than
// that comes at once. The demo's provider has larger buckets with the same rates: the
// rest of them is there to absorb the jitter of the network.
type turns struct {
	redis   redis.UniversalClient
	perHost time.Duration // between two requests to one host
	crawl   *reserve.Limiter

	mu    sync.Mutex
	hosts map[time.Duration]*reserve.Limiter // by their interval

	gates sync.Map // by host, as many as the run has; each a chan struct{}
}

// newTurns shares qps requests per second among all processes that use the
// same Redis, and perHost per second among those that visit the same host.
func newTurns(client redis.UniversalClient, qps, perHost float64) (*turns, error) {
	crawl, err := reserve.New(client, reserve.Config{Name: "crawl", Limit: reserve.PerSecond(qps).Burst(crawlBurst)})
	if err != nil {
		return nil, err
	}
	return &turns{
		redis:   client,
		perHost: reserve.PerSecond(perHost).Interval(),
		crawl:   crawl,
		hosts:   make(map[time.Duration]*reserve.Limiter),
	}, nil
}

// ofHosts is the limiter of the hosts whose robots.txt asks for crawlDelay; each
// host is a key of it. The slower of that and the per-host limit counts.
func (t *turns) ofHosts(crawlDelay time.Duration) (*reserve.Limiter, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// Limits count whole microseconds; rounding up keeps on the polite side.
	interval := (max(t.perHost, crawlDelay) + time.Microsecond - 1).Truncate(time.Microsecond)
	limiter, ok := t.hosts[interval]
	if !ok {
		var err error
		limiter, err = reserve.New(t.redis, reserve.Config{
			Name: "crawl-host", Limit: reserve.Every(interval), MaxPause: maxPause,
		})
		if err != nil {
			return nil, err
		}
		t.hosts[interval] = limiter
	}
	return limiter, nil
}

// wait returns when a request to host may start; start it at once. A visit that
// the worker gave the turn of its host waits for the crawl's only. After an error
// it has to come back for another turn of its host.
func (t *turns) wait(ctx context.Context, host string, crawlDelay time.Duration) error {
	limiter, err := t.ofHosts(crawlDelay)
	if err != nil {
		return err
	}
	due, given := worker.Due(ctx)
	if !given {
		if err := limiter.For(host).Wait(ctx); err != nil {
			return err
		}
		due = time.Now()
	}
	// One visit of a host at a time stands in the crawl's line, so that all hosts
	// get an equal share.
	found, _ := t.gates.LoadOrStore(host, make(chan struct{}, 1))
	gate := found.(chan struct{})
	select {
	case gate <- struct{}{}: // at once, however late this process is
	default:
		select {
		case gate <- struct{}{}:
		case <-time.After(time.Until(due.Add(stale * limiter.Limit().Interval()))):
			return errStale
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() { <-gate }()
	return t.crawl.Wait(ctx)
}

// pause lets no process send anything to host for so long: it said so. All visits of the
// host that wait keep their order.
func (t *turns) pause(ctx context.Context, host string, crawlDelay, d time.Duration) error {
	limiter, err := t.ofHosts(crawlDelay)
	if err != nil {
		return err
	}
	return limiter.For(host).Pause(ctx, d, "Retry-After")
}

// close ends all waits and gives their numbers back.
func (t *turns) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	errs := []error{t.crawl.Close()}
	for _, limiter := range t.hosts {
		errs = append(errs, limiter.Close())
	}
	return errors.Join(errs...)
}
