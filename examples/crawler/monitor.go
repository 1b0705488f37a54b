package main

import (
	"context"

	"github.com/fleetpace/fleetpace/internal/scrape"
	"github.com/fleetpace/fleetpace/monitor"
)

// openMonitor serves the web page of -monitor until the crawl ends.
func (s *scene) openMonitor() error {
	if s.opts.monitor == "" {
		return nil
	}
	page, err := monitor.New(s.redis, monitor.Config{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	at, done, err := scrape.Serve(ctx, s.opts.monitor, page)
	if err != nil {
		cancel()
		_ = page.Close()
		return err
	}
	s.page = "http://" + at + "/"
	s.closers = append(s.closers, func() {
		cancel()
		_ = page.Close()
		<-done
	})
	return nil
}
