package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/fleetpace/fleetpace/reserve"
)

// line is the limiter with what it runs on.
type line struct {
	*reserve.Limiter
	redis *redisServer
}

// openLine connects to the Redis that redisURL names, or to an embedded one that
// is started when redisURL is empty. The limit is named after the API's host, so
// everybody who calls that host through the same Redis shares it.
func openLine(ctx context.Context, redisURL, api string, limit reserve.Limit, outage reserve.Policy) (*line, error) {
	server, err := openRedis(ctx, redisURL)
	if err != nil {
		return nil, err
	}
	limiter, err := newLimiter(server, api, limit, outage)
	if err != nil {
		return nil, errors.Join(err, server.close())
	}
	return &line{limiter, server}, nil
}

func newLimiter(server *redisServer, api string, limit reserve.Limit, outage reserve.Policy) (*reserve.Limiter, error) {
	u, err := url.Parse(api)
	if err != nil {
		return nil, fmt.Errorf("-api: %w", err)
	}
	return reserve.New(server.client, reserve.Config{
		Name:   "batch " + u.Host,
		Limit:  limit,
		Outage: reserve.Outage{Policy: outage},
	})
}

// close gives back the turns that nobody waits for any more and ends the
// connection, and the embedded Redis if there is one.
func (l *line) close() error { return errors.Join(l.Close(), l.redis.close()) }
