package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/fleetpace/fleetpace/internal/example"
	"github.com/fleetpace/fleetpace/reserve"
)

// turns is the limiter with its Redis.
type turns struct {
	*reserve.Limiter
	redis *example.Redis
}

// openTurns connects to the Redis at redisURL, or starts an embedded one if redisURL is empty. The
// limit has the name of the API's host, so all programs that call that host through the same Redis
// share it.
func openTurns(ctx context.Context, redisURL, api string, limit reserve.Limit, outage reserve.Policy) (*turns, error) {
	server, err := example.OpenRedis(ctx, redisURL)
	if err != nil {
		return nil, err
	}
	limiter, err := newLimiter(server, api, limit, outage)
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return &turns{limiter, server}, nil
}

func newLimiter(server *example.Redis, api string, limit reserve.Limit, outage reserve.Policy) (*reserve.Limiter, error) {
	u, err := url.Parse(api)
	if err != nil {
		return nil, fmt.Errorf("-api: %w", err)
	}
	return reserve.New(server.Client, reserve.Config{
		Name:   "batch " + u.Host,
		Limit:  limit,
		Outage: reserve.Outage{Policy: outage},
	})
}

// close closes the limiter, which removes its waiting calls from the queue. Then it closes the
// connection, and the embedded Redis if there is one.
func (t *turns) close() error { return errors.Join(t.Close(), t.redis.Close()) }
