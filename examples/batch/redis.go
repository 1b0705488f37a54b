package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/embedded"
)

// redisServer is a connection to the user's Redis, or to an embedded one.
type redisServer struct {
	url     string
	client  *redis.Client
	closers []func() error
}

// openRedis connects to the Redis at url, or starts an embedded one if url is empty. It checks that
// Redis answers.
func openRedis(ctx context.Context, url string) (*redisServer, error) {
	s := &redisServer{url: url}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *redisServer) open(ctx context.Context) error {
	if s.url == "" {
		server, err := embedded.Start("")
		if err != nil {
			return err
		}
		s.closers = append(s.closers, func() error { server.Close(); return nil })
		s.url = server.URL()
	}
	options, err := redis.ParseURL(s.url)
	if err != nil {
		return fmt.Errorf("-redis: %w: want redis://host:port/db", err)
	}
	redis.SetLogger(silence{})
	s.client = redis.NewClient(options)
	s.closers = append(s.closers, s.client.Close)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := s.client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("-redis: no answer from %s: %w (without -redis an embedded one is used)", options.Addr, err)
	}
	return nil
}

// close ends the connection, and the embedded Redis if there is one.
func (s *redisServer) close() error {
	var errs []error
	for _, closer := range slices.Backward(s.closers) {
		errs = append(errs, closer())
	}
	return errors.Join(errs...)
}

// silence discards the log of go-redis. Errors are reported once, and not by go-redis into the
// middle of the progress display.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
