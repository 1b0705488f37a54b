package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/reserve"
)

// crawlBurst is how many requests of the whole crawl may come at once, after a time in
// which none did, and hostBurst those to one host. They are above 1 for turns that the
// machine sleeps through for a moment: those may still be used.
const crawlBurst, hostBurst = 3, 2

// maxPause bounds what a host may ask for with Retry-After.
const maxPause = 10 * time.Minute

// turns are the limits that a request needs: its host's and the crawl's, in one turn. They
// are safe for concurrent use.
//
// A host that asks for a delay has a burst of 1: its turns are evenly spaced. The demo's
// provider has larger buckets with the same rates: the rest of them is there to absorb the
// jitter of the network.
type turns struct {
	perHost reserve.Limit
	hosts   *reserve.Limiter // a host is a key of it
	crawl   *reserve.Limiter
}

// newTurns shares qps requests per second among all processes that use the
// same Redis, and perHost per second among those that visit the same host.
func newTurns(client redis.UniversalClient, qps, perHost float64) (*turns, error) {
	const group = "crawl"
	t := &turns{perHost: reserve.PerSecond(perHost).Burst(hostBurst)}
	var err error
	t.crawl, err = reserve.New(client, reserve.Config{
		Name: "crawl", Group: group, Limit: reserve.PerSecond(qps).Burst(crawlBurst),
	})
	if err != nil {
		return nil, err
	}
	t.hosts, err = reserve.New(client, reserve.Config{
		Name: "crawl-host", Group: group, Limit: t.perHost, MaxPause: maxPause,
	})
	if err != nil {
		return nil, errors.Join(err, t.crawl.Close())
	}
	return t, nil
}

// of is the limits that a request to host needs.
func (t *turns) of(host string) (*reserve.Joint, error) {
	return reserve.All(t.hosts.For(host), t.crawl)
}

// wait returns when a request to host may start; start it at once.
func (t *turns) wait(ctx context.Context, host string) error {
	joint, err := t.of(host)
	if err != nil {
		return err
	}
	return joint.Wait(ctx)
}

// slow obeys a host that asks for a delay between two requests: the slower of that and the
// per-host limit counts, for the whole fleet. It has to be told again when what is known of
// the host's robots.txt is over.
func (t *turns) slow(ctx context.Context, host string, crawlDelay time.Duration) error {
	if crawlDelay <= t.perHost.Interval() {
		return nil
	}
	// Limits count whole microseconds; rounding up keeps on the polite side.
	interval := (crawlDelay + time.Microsecond - 1).Truncate(time.Microsecond)
	return t.hosts.For(host).SetLimit(ctx, reserve.Every(interval), 2*robotsFor)
}

// pause lets no process send anything to host for so long: it said so. All visits of the
// host that wait keep their order.
func (t *turns) pause(ctx context.Context, host string, d time.Duration) error {
	return t.hosts.For(host).Pause(ctx, d, "Retry-After")
}

// close ends all waits and gives their places back.
func (t *turns) close() error { return errors.Join(t.crawl.Close(), t.hosts.Close()) }
