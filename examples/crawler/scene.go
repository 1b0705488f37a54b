package main

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/example"
)

// scene is what the crawl needs before the first worker starts.
type scene struct {
	opts      *options
	server    *example.Redis
	redis     *redis.Client
	inspector *asynq.Inspector
	site      *example.Site // nil with -url
	hosts     []string
	perHost   float64
	continued bool
	out       *example.Output
	closers   []func()
}

func (s *scene) close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.closers[i]()
	}
}

// prepare starts or connects what the crawl needs, and adds the entry pages to the frontier.
func (s *scene) prepare(ctx context.Context, stderr io.Writer) error {
	if err := s.openRedis(ctx); err != nil {
		return err
	}
	rec, continued, err := example.LoadRun(ctx, s.redis, s.opts.run, keyOf(s.opts.run, "record"), recordOf(s.opts))
	if err != nil {
		return err
	}
	s.continued = continued
	entries, err := s.openSite(&rec)
	if err != nil {
		return err
	}
	if s.out, err = example.OpenPages(s.opts.out); err != nil {
		return err
	}
	s.closers = append(s.closers, func() { _ = s.out.Close() })
	if err := example.SaveRun(ctx, s.redis, keyOf(s.opts.run, "record"), rec, visitedFor); err != nil {
		return err
	}
	if err := s.server.Monitor(s.opts.monitor, stderr); err != nil {
		return err
	}
	f := newFrontier(s.redis, s.opts.run, s.hosts)
	for _, u := range entries {
		if _, err := f.add(ctx, target{URL: u}); err != nil {
			return err
		}
	}
	return nil
}

func (s *scene) openRedis(ctx context.Context) error {
	server, err := example.OpenRedis(ctx, s.opts.redisURL)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, func() { _ = server.Close() })
	s.server, s.redis, s.inspector = server, server.Client, asynq.NewInspectorFromRedisClient(server.Client)
	return nil
}

// openSite returns the entry pages. For a crawl of the demo or of a folder, it also serves the
// site.
func (s *scene) openSite(rec *example.Run) (entries []string, err error) {
	o := s.opts
	if o.url != nil {
		s.hosts = append([]string{o.url.Host}, o.hosts...)
		s.perHost = o.perHostFor(len(s.hosts))
		return []string{o.url.String()}, nil
	}
	ports := 1
	if o.dir == "" {
		ports = example.PageHosts
	}
	listeners, addrs, err := example.Listen(ports, rec.Addrs)
	if err != nil {
		return nil, err
	}
	rec.Addrs, s.hosts, s.perHost = addrs, addrs, o.perHostFor(ports)
	var specs []example.Host
	if o.dir != "" {
		s.site = &example.Site{Pages: -1, Entries: []string{(&url.URL{Scheme: "http", Host: addrs[0], Path: "/"}).String()}}
		specs = []example.Host{{Handler: http.FileServer(http.Dir(o.dir)), PerSecond: s.perHost}}
	} else {
		s.site, specs = example.NewPages(o.demo, addrs, s.perHost)
	}
	s.site.Serve(listeners, specs, o.qps)
	s.closers = append(s.closers, s.site.Close)
	return s.site.Entries, nil
}

// keyOf names the keys of the crawler itself.
func keyOf(run, what string) string { return "fleetpace:crawler:{" + run + "}:" + what }

func recordOf(o *options) example.Run {
	switch {
	case o.url != nil:
		return example.Run{URL: o.url.String(), Hosts: o.hosts}
	case o.dir != "":
		return example.Run{Dir: o.dir}
	default:
		return example.Run{Demo: o.demo}
	}
}
