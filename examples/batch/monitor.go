package main

import (
	"context"
	"fmt"
	"io"

	"github.com/fleetpace/fleetpace/internal/scrape"
	"github.com/fleetpace/fleetpace/monitor"
)

// monitor serves the web page of -monitor for as long as the connection is open.
func (s *redisServer) monitor(address string, stderr io.Writer) error {
	if address == "" {
		return nil
	}
	page, err := monitor.New(s.client, monitor.Config{})
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
