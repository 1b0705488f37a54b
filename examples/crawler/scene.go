package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/embedded"
)

// redisPing is how long the first answer of Redis may take.
const redisPing = 5 * time.Second

// scene is what the crawl needs before the first worker starts.
type scene struct {
	opts      *options
	redisURL  string
	redis     *redis.Client
	inspector *asynq.Inspector
	site      *site // nil with -url
	hosts     []string
	perHost   float64
	continued bool
	out       *output
	page      string // the address of the web page of -monitor
	closers   []func()
}

func (s *scene) close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.closers[i]()
	}
}

// prepare starts or connects what the crawl needs, and adds the entry pages to the frontier.
func (s *scene) prepare(ctx context.Context) error {
	if err := s.openRedis(ctx); err != nil {
		return err
	}
	rec, continued, err := loadRecord(ctx, s.redis, s.opts)
	if err != nil {
		return err
	}
	s.continued = continued
	entries, err := s.openSite(&rec)
	if err != nil {
		return err
	}
	if s.out, err = openOutput(s.opts.out); err != nil {
		return err
	}
	s.closers = append(s.closers, func() { _ = s.out.close() })
	if err := saveRecord(ctx, s.redis, s.opts.run, rec); err != nil {
		return err
	}
	if err := s.openMonitor(); err != nil {
		return fmt.Errorf("-monitor: %w", err)
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
	s.redisURL = s.opts.redisURL
	if s.redisURL == "" {
		server, err := embedded.Start("")
		if err != nil {
			return err
		}
		s.closers = append(s.closers, server.Close)
		s.redisURL = server.URL()
	}
	opts, err := redis.ParseURL(s.redisURL)
	if err != nil {
		return redactURL(err)
	}
	redis.SetLogger(quiet{}) // errors are returned
	s.redis = redis.NewClient(opts)
	s.closers = append(s.closers, func() { _ = s.redis.Close() })
	s.inspector = asynq.NewInspectorFromRedisClient(s.redis)
	ping, cancel := context.WithTimeout(ctx, redisPing)
	defer cancel()
	if err := s.redis.Ping(ping).Err(); err != nil {
		return fmt.Errorf("-redis: no Redis answers at %s: %w: start one there, or leave -redis out to use an embedded one", opts.Addr, err)
	}
	return nil
}

// openSite returns the entry pages. For a crawl of the demo or of a folder, it also serves the
// site.
func (s *scene) openSite(rec *record) (entries []string, err error) {
	o := s.opts
	if o.url != nil {
		s.hosts = append([]string{o.url.Host}, o.hosts...)
		s.perHost = o.perHostFor(len(s.hosts))
		return []string{o.url.String()}, nil
	}
	ports := 1
	if o.dir == "" {
		ports = demoHosts
	}
	listeners, addrs, err := listen(ports, rec.Addrs)
	if err != nil {
		return nil, err
	}
	rec.Addrs, s.hosts, s.perHost = addrs, addrs, o.perHostFor(ports)
	var specs []hostSpec
	if o.dir != "" {
		s.site = &site{pages: -1, entries: []string{(&url.URL{Scheme: "http", Host: addrs[0], Path: "/"}).String()}}
		specs = []hostSpec{{handler: http.FileServer(http.Dir(o.dir)), perSecond: s.perHost}}
	} else {
		s.site, specs = newDemo(o.demo, addrs, s.perHost)
	}
	s.site.serve(listeners, specs, o.qps)
	s.closers = append(s.closers, s.site.close)
	return s.site.entries, nil
}

// quiet is a logger for go-redis that discards its lines.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
