package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/example/web"
	"github.com/fleetpace/fleetpace/reserve"
)

// crawlBurst is how many requests of the whole crawl may come at once after an idle time, and
// hostBurst is the same for one host. They are above 1, so that a turn can still be used if the
// machine is a little late.
const crawlBurst, hostBurst = 3, 2

// maxPause is the longest pause that a host may ask for with Retry-After.
const maxPause = 10 * time.Minute

// turns are the limits that a request needs, in one turn: its host's and the crawl's. They are safe
// for concurrent use.
//
// A host with a Crawl-delay has a burst of 1, so its turns are evenly spaced. The demo's provider
// has the same rates and larger bursts, to absorb the jitter of the network.
type turns struct {
	perHost reserve.Limit
	hosts   *reserve.Limiter // each host is a key
	crawl   *reserve.Limiter
}

// newTurns shares qps requests per second among all processes that use the same Redis, and perHost
// requests per second to each host.
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

// of returns the limits that a request to host needs.
func (t *turns) of(host string) (*reserve.Joint, error) {
	return reserve.All(t.hosts.For(host), t.crawl)
}

// wait returns when a request to host may start. Start it at once.
func (t *turns) wait(ctx context.Context, host string) error {
	joint, err := t.of(host)
	if err != nil {
		return err
	}
	return joint.Wait(ctx)
}

// slow applies the Crawl-delay of a host for the whole fleet, if it is slower than the per-host
// limit. Call it again when the host's robots.txt is read again, because the override expires.
func (t *turns) slow(ctx context.Context, host string, crawlDelay time.Duration) error {
	if crawlDelay <= t.perHost.Interval() {
		return nil
	}
	// Limits count whole microseconds. Rounding up is the polite direction.
	interval := (crawlDelay + time.Microsecond - 1).Truncate(time.Microsecond)
	return t.hosts.For(host).SetLimit(ctx, reserve.Every(interval), 2*web.RobotsFor)
}

// pause lets no process send requests to host for a time, because the host asked for it. The
// waiting visits of the host keep their order.
func (t *turns) pause(ctx context.Context, host string, d time.Duration) error {
	return t.hosts.For(host).Pause(ctx, d, "Retry-After")
}

// close ends all waits and removes their places from the queue.
func (t *turns) close() error { return errors.Join(t.crawl.Close(), t.hosts.Close()) }
