package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/embedded"
	"github.com/fleetpace/fleetpace/reserve"
)

// line is the limiter with what it runs on.
type line struct {
	*reserve.Limiter
	closers []func() error
}

// openLine connects to the Redis that redisURL names, or to an embedded one that
// is started when redisURL is empty. The limit is named after the API's host, so
// everybody who calls that host through the same Redis shares it.
func openLine(ctx context.Context, redisURL, api string, limit reserve.Limit, outage reserve.Policy) (*line, error) {
	l := &line{}
	if err := l.open(ctx, redisURL, api, limit, outage); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *line) open(ctx context.Context, redisURL, api string, limit reserve.Limit, outage reserve.Policy) error {
	if redisURL == "" {
		server, err := embedded.Start("")
		if err != nil {
			return err
		}
		l.closers = append(l.closers, func() error { server.Close(); return nil })
		redisURL = server.URL()
	}
	options, err := redis.ParseURL(redisURL)
	if err != nil {
		return fmt.Errorf("-redis: %w: want redis://host:port/db", err)
	}
	redis.SetLogger(silence{})
	client := redis.NewClient(options)
	l.closers = append(l.closers, client.Close)
	pingCtx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := client.Ping(pingCtx).Err(); err != nil {
		return fmt.Errorf("-redis: no answer from %s: %w (without -redis an embedded one is used)", options.Addr, err)
	}

	u, err := url.Parse(api)
	if err != nil {
		return fmt.Errorf("-api: %w", err)
	}
	l.Limiter, err = reserve.New(client, reserve.Config{
		Name:   "batch " + u.Host,
		Limit:  limit,
		Outage: reserve.Outage{Policy: outage},
	})
	if err != nil {
		return err
	}
	l.closers = append(l.closers, l.Limiter.Close)
	return nil
}

// close gives back the turns that nobody waits for any more and ends the
// connection, and the embedded Redis if there is one.
func (l *line) close() error {
	var errs []error
	for _, closer := range slices.Backward(l.closers) {
		errs = append(errs, closer())
	}
	return errors.Join(errs...)
}

// silence is a logger for go-redis: what fails is reported once, as an error, and
// not by its pool into the middle of the progress display.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
