// Package example is what the examples run on and against: a Redis, worker processes, files of records
// and results, and APIs that are played on the loopback interface. The use of the limiter is shown by the
// examples themselves.
package example

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/embedded"
	"github.com/fleetpace/fleetpace/internal/scrape"
	"github.com/fleetpace/fleetpace/monitor"
)

// Redis is a connection to the user's Redis, or to an embedded one.
type Redis struct {
	URL     string
	Client  *redis.Client
	closers []func() error
}

// OpenRedis connects to the Redis at url, or starts an embedded one if url is empty. It checks that
// Redis answers.
func OpenRedis(ctx context.Context, url string) (*Redis, error) {
	s := &Redis{URL: url}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Redis) open(ctx context.Context) error {
	if s.URL == "" {
		server, err := embedded.Start("")
		if err != nil {
			return err
		}
		s.closers = append(s.closers, func() error { server.Close(); return nil })
		s.URL = server.URL()
	}
	options, err := redis.ParseURL(s.URL)
	if err != nil {
		return fmt.Errorf("-redis: %w: want redis://host:port/db", err)
	}
	redis.SetLogger(Quiet{})
	s.Client = redis.NewClient(options)
	s.closers = append(s.closers, s.Client.Close)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := s.Client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("-redis: no Redis answers at %s: %w: start one there, or leave -redis out to use an embedded one", options.Addr, err)
	}
	return nil
}

// Close ends the connection, and the embedded Redis if there is one.
func (s *Redis) Close() error {
	var errs []error
	for _, closer := range slices.Backward(s.closers) {
		errs = append(errs, closer())
	}
	return errors.Join(errs...)
}

// Quiet discards the log of go-redis. Errors are reported once, and not by go-redis into the
// middle of the progress display.
type Quiet struct{}

func (Quiet) Printf(context.Context, string, ...any) {}

// Monitor serves the web page of -monitor for as long as the connection is open.
func (s *Redis) Monitor(address string, stderr io.Writer) error {
	if address == "" {
		return nil
	}
	page, err := monitor.New(s.Client, monitor.Config{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	at, done, err := scrape.Serve(ctx, address, page)
	if err != nil {
		cancel()
		_ = page.Close()
		return fmt.Errorf("-monitor: %w", err)
	}
	_, _ = fmt.Fprintf(stderr, "the limits are shown at http://%s/\n", at)
	s.closers = append(s.closers, func() error {
		cancel()
		_ = page.Close()
		return <-done
	})
	return nil
}
