package main

import (
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/example"
	"github.com/fleetpace/fleetpace/internal/example/web"
	"github.com/fleetpace/fleetpace/reserve"
)

const usage = `A polite, distributed web crawler: several worker processes, one shared limit.

  go run ./examples/crawler                        the demo: embedded Redis, demo site, 3 workers
  go run ./examples/crawler -url https://go.dev/   crawl a site (only the host of the URL, 2 requests/s)
  go run ./examples/crawler -dir ./public          serve a folder of HTML on 127.0.0.1 and crawl it
  go run ./examples/crawler -redis redis://localhost:6379 -run mysite -url https://example.com/ -out pages.jsonl
                                                   Ctrl-C, then the same command again: it continues where it stopped

Pages are written as JSON lines: url, status, title, links, bytes, depth, fetched_at, worker.

Flags:
`

// options are the command line, checked and with defaults.
type options struct {
	url      *url.URL // nil: the demo or -dir
	hosts    []string // in addition to the URL's host
	dir      string
	redisURL string // empty: embedded
	run      string
	newRun   bool // the name of the run is generated, so nothing can be continued
	qps      float64
	perHost  float64 // 0: depends on the number of hosts
	workers  int
	maxPages int // 0: all
	out      string
	chart    string
	metrics  string // the address of the first worker's metrics; empty: not served
	monitor  string // the address of a web page with the limits; empty: no page
	json     bool
	demo     int // pages of the demo site
}

var runName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	var rawURL, rawHosts string
	fs := flag.NewFlagSet("crawler", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() { fmt.Fprint(stderr, usage); fs.PrintDefaults() }
	fs.StringVar(&rawURL, "url", "", "crawl the site of this `URL` instead of the demo")
	fs.StringVar(&rawHosts, "hosts", "", "with -url: further `hosts` that may be crawled, separated by commas")
	fs.StringVar(&o.dir, "dir", "", "serve this `folder` of HTML and crawl it, instead of the demo")
	fs.StringVar(&o.redisURL, "redis", "", "use the Redis at this `URL` (redis://user:password@host:6379/0) instead of an embedded one")
	fs.StringVar(&o.run, "run", "", "`name` of the crawl in Redis; the same name continues it (default: a new one)")
	fs.Float64Var(&o.qps, "qps", 0, "requests per second of the whole crawl (default 20; with -url 2)")
	fs.Float64Var(&o.perHost, "per-host", 0, "requests per second to one host (default: three fifths of -qps; all of it when there is one host)")
	fs.IntVar(&o.workers, "workers", 3, "number of worker processes")
	fs.IntVar(&o.maxPages, "max-pages", 1000, "stop after this many pages; requests under way still finish (0: no limit)")
	fs.StringVar(&o.out, "out", "", "append the pages to this `file` (default: a new temporary file)")
	fs.StringVar(&o.chart, "chart", "", "draw the requests over time to this `file`, .svg or .png (default: beside -out)")
	fs.StringVar(&o.monitor, "monitor", "", "serve a web page of the limits at this `address`, such as localhost:9468")
	fs.StringVar(&o.metrics, "metrics", "", "serve the metrics of the first worker to Prometheus at this `address` (localhost:9470), and those of the next ones at the ports behind it; with port 0 each takes a free one, and says which")
	fs.BoolVar(&o.json, "json", false, "print the result as one JSON object, the last line on stdout; all else goes to stderr")
	fs.IntVar(&o.demo, "demo-pages", 300, "number of pages of the demo site")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("argument %q is not understood: everything is a flag, see -h", fs.Arg(0))
	}
	return o, o.check(rawURL, rawHosts)
}

func (o *options) check(rawURL, rawHosts string) error {
	if rawURL != "" && o.dir != "" {
		return errors.New("-url and -dir: give one of them")
	}
	if rawURL != "" {
		u, err := web.Normalise(nil, rawURL)
		if err != nil {
			return fmt.Errorf("-url %q: %w: give an address such as https://example.com/", rawURL, err)
		}
		o.url = u
	}
	if rawHosts != "" && rawURL == "" {
		return fmt.Errorf("-hosts %q: only with -url", rawHosts)
	}
	for h := range strings.SplitSeq(rawHosts, ",") {
		if h = strings.TrimSpace(h); h == "" {
			continue
		}
		host, err := web.NormaliseHost(o.url.Scheme, h)
		if err != nil || strings.Contains(h, "/") {
			return fmt.Errorf("-hosts: %q is not a host: give names such as www.example.com", h)
		}
		o.hosts = append(o.hosts, host)
	}
	if o.dir != "" {
		abs, err := filepath.Abs(o.dir)
		if err != nil {
			return fmt.Errorf("-dir %q: %w", o.dir, err)
		}
		if info, err := os.Stat(abs); err != nil || !info.IsDir() {
			return fmt.Errorf("-dir %q: no such folder", o.dir)
		}
		o.dir = abs
	}
	if o.redisURL != "" {
		if _, err := redis.ParseURL(o.redisURL); err != nil {
			return fmt.Errorf("-redis: %w: give a URL such as redis://user:password@localhost:6379/0, or leave -redis out to use an embedded Redis", redactURL(err))
		}
	}
	return o.checkNumbers()
}

// redactURL takes the URL, which may hold a password, out of a parse error.
func redactURL(err error) error {
	var parse *url.Error
	if errors.As(err, &parse) {
		return parse.Err
	}
	return err
}

func (o *options) checkNumbers() error {
	if o.run != "" && !runName.MatchString(o.run) {
		return fmt.Errorf("-run %q: use 1 to 64 letters, digits, dots, dashes and underscores", o.run)
	}
	if o.run == "" {
		o.newRun = true
		o.run = time.Now().UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:4])
	}
	if o.qps == 0 {
		o.qps = 20
		if o.url != nil {
			o.qps = 2
		}
	}
	if err := reserve.PerSecond(o.qps).Validate(); err != nil {
		return fmt.Errorf("-qps %v: %w", o.qps, err)
	}
	if o.perHost != 0 {
		if err := reserve.PerSecond(o.perHost).Validate(); err != nil {
			return fmt.Errorf("-per-host %v: %w", o.perHost, err)
		}
	}
	if o.workers < 1 || o.workers > 64 {
		return fmt.Errorf("-workers %d: from 1 to 64", o.workers)
	}
	if o.maxPages < 0 {
		return fmt.Errorf("-max-pages %d: give a number above 0, or 0 for no limit", o.maxPages)
	}
	if o.demo < 6 || o.demo > 100_000 {
		return fmt.Errorf("-demo-pages %d: from 6 to 100000", o.demo)
	}
	if o.metrics != "" {
		if _, err := example.MetricsOf(o.metrics, o.workers-1); err != nil {
			return fmt.Errorf("-metrics %q: %w: give a host and a port, such as localhost:9470", o.metrics, err)
		}
	}
	switch ext := strings.ToLower(filepath.Ext(o.chart)); {
	case o.chart == "", ext == ".svg", ext == ".png":
		return nil
	default:
		return fmt.Errorf("-chart %q: the file must end in .svg or .png", o.chart)
	}
}

// perHostFor is the per-host limit of a crawl over this many hosts. With three fifths of the
// crawl's limit, a host that is behind can catch up: at the end only its own limit holds it back.
func (o *options) perHostFor(hosts int) float64 {
	switch {
	case o.perHost > 0:
		return o.perHost
	case hosts > 1:
		return o.qps * 3 / 5
	default:
		return o.qps
	}
}
