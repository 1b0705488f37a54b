package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"golang.org/x/sync/errgroup"

	"github.com/fleetpace/fleetpace/bench/internal/database"
	"github.com/fleetpace/fleetpace/internal/progress"
)

// poolSize is the number of connections of each contender's client, in all cases.
const poolSize = 64

// session is one run of the program.
type session struct {
	url    string
	via    string // address of a proxy before Redis; empty: none
	admin  *redis.Client
	bar    *progress.Bar // nil: nobody watches
	passed time.Duration
}

// compare measures all cases and reports them.
func compare(ctx context.Context, o options, stdout io.Writer, stderr *os.File) (err error) {
	// What goes wrong comes back as an error, not between the lines of the progress.
	logging.Disable()
	url, stop, err := database.Open(o.redisURL)
	if err != nil {
		return err
	}
	defer stop()
	s := &session{url: url}
	s.admin = s.client()
	defer s.admin.Close()
	if err := database.ExpectEmpty(ctx, s.admin, "cases"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, database.Empty(s.admin)) }()
	if info, statErr := stderr.Stat(); statErr == nil && info.Mode()&os.ModeCharDevice != 0 {
		s.bar = progress.New(stderr, "ms measured", int(o.total().Milliseconds()))
		defer s.bar.Close()
	}

	out := &report{w: stdout, json: o.json}
	var all []*record
	planned := time.Duration(0)
	for _, t := range o.trials {
		records, err := t.run(ctx, s, t)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		compareAll(records)
		if err := out.add(records); err != nil {
			return err
		}
		all = slices.Concat(all, records)
		planned += t.time
		s.advance(planned - s.passed)
		if err := database.Empty(s.admin); err != nil {
			return err
		}
	}
	if o.chart != "" {
		if err := drawCosts(o.chart, all); err != nil {
			return fmt.Errorf("-chart: %w", err)
		}
	}
	return nil
}

// client makes a client as each contender has it.
func (s *session) client() *redis.Client {
	options, err := redis.ParseURL(s.url)
	if err != nil {
		panic(err) // the options were checked
	}
	if s.via != "" {
		options.Addr = s.via
	}
	options.PoolSize = poolSize
	options.PoolTimeout = time.Minute // calls wait for a connection as long as it takes
	options.ReadTimeout = 10 * time.Second
	return redis.NewClient(options)
}

// connect opens all connections of a client.
func connect(ctx context.Context, client *redis.Client) error {
	group, ctx := errgroup.WithContext(ctx)
	for range 2 * poolSize {
		group.Go(func() error { return client.Ping(ctx).Err() })
	}
	return group.Wait()
}

// fresh is the name of a limit that nobody has used.
func (*session) fresh() string { return "compare-" + rand.Text()[:8] }

func (s *session) describe(what string) {
	if s.bar != nil {
		s.bar.Describe(what)
	}
}

func (s *session) advance(d time.Duration) {
	s.passed += d
	if s.bar != nil {
		s.bar.Set(int(s.passed.Milliseconds()))
	}
}
