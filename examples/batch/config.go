package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/fleetpace/fleetpace/reserve"
)

// config holds the flags.
type config struct {
	in          string // "" is the sample, "-" stdin
	idField     string
	out         string // a temporary file if not given; see outGiven
	outGiven    bool
	api         string // "" is the demo API, apiLLM a language model
	header      http.Header
	redis       string // "" is the embedded Redis
	limit       reserve.Limit
	outage      reserve.Policy
	concurrency int
	workers     int
	noSettle    bool
	monitor     string // the address of a web page with the limits; "": no page
	json        bool
	chart       string
}

const usage = `batch sends the records of a CSV or JSONL file to a rate-limited HTTP API, each
call in its turn, and writes one line of JSON per result.

Without flags it checks 500 sample addresses against a demo API that refuses
calls that come too early, on an embedded Redis. That takes about ten seconds.

  batch -in orders.csv -api https://api.example.com/v1/check \
        -header 'Authorization: Bearer $API_KEY' \
        -redis redis://localhost:6379/0 -rate "50/s" -out results.jsonl

Each record is sent by POST as a JSON object, with its ID as Idempotency-Key; the
response must be JSON. After status 5xx or 429, or a network error, the call is
retried, and each attempt waits for a turn. Other 4xx responses are failures
(401, 402 and 403 stop the run: they do not depend on the record).

-out is also the journal. If you run the same command again, it skips records
that are done and retries failed ones. Only one process may write to it at a
time. Processes that share a Redis share the limit of an API host.

With -api llm, 4 processes send 600 sample prompts to a demo of a language model
that limits requests and tokens. Only the response states what a call costs in
tokens. That takes about half a minute.
Your own records need "prompt" and "max_tokens".

`

// parseFlags returns an error that names the wrong flag. For -h it prints the help to w and returns
// flag.ErrHelp.
func parseFlags(args []string, w io.Writer) (*config, error) {
	cfg := &config{header: http.Header{}}
	fs := flag.NewFlagSet("batch", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // the caller prints errors, once
	fs.StringVar(&cfg.in, "in", "", "CSV or JSONL `file`, \"-\" for stdin (default: a sample of 500 addresses)")
	fs.StringVar(&cfg.idField, "id", "id", "`field` that holds the ID of a record")
	fs.StringVar(&cfg.out, "out", "", "JSONL `file` for results, also the journal (default: a new temporary file)")
	fs.StringVar(&cfg.api, "api", "", "`URL` of the API, or \"llm\" for a demo of a language model in this process (default: a demo API in this process)")
	fs.Func("header", "`header` for the API, \"Name: value\", may be repeated; $NAME is taken from the environment", cfg.addHeader)
	fs.StringVar(&cfg.redis, "redis", "", "`URL` of the Redis that holds the queue, redis://host:port/db (default: an embedded one)")
	fs.TextVar(&cfg.limit, "rate", reserve.PerSecond(50).Burst(5), "`limit` of the API, such as \"50/s\", \"1000/minute burst 5\"; of -api llm, that of requests")
	fs.IntVar(&cfg.concurrency, "concurrency", 0, "`records` in work at the same time, most of them waiting for their turn (default: half a second's worth, 8 to 256; with -api llm 3 for each worker)")
	fs.IntVar(&cfg.workers, "workers", 4, "worker `processes` of -api llm")
	fs.BoolVar(&cfg.noSettle, "no-settle", false, "with -api llm, keep the estimated costs, to see the effect of settling")
	fs.BoolVar(&cfg.json, "json", false, "print the summary as one JSON object, the last line on stdout")
	fs.TextVar(&cfg.outage, "outage", reserve.PolicyLocal, "`policy` while Redis is unreachable: local (continue at 0.9 of the rate), wait, fail or open")
	fs.StringVar(&cfg.monitor, "monitor", "", "serve a web page of the limits at this `address`, such as localhost:9469")
	fs.StringVar(&cfg.chart, "chart", "", "draw requests against the limit into this `file`, .svg or .png")

	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			_, _ = fmt.Fprint(w, usage)
			fs.SetOutput(w)
			fs.PrintDefaults()
		}
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("%q is not a flag: name the input with -in", fs.Arg(0))
	}
	return cfg, cfg.complete()
}

func (c *config) addHeader(s string) error {
	name, value, ok := strings.Cut(s, ":")
	if !ok || strings.TrimSpace(name) == "" {
		return fmt.Errorf("want \"Name: value\"")
	}
	c.header.Add(strings.TrimSpace(name), os.ExpandEnv(strings.TrimSpace(value)))
	return nil
}

// complete fills in values that depend on other flags. It finds errors that would otherwise show
// only after records were paid for.
func (c *config) complete() error {
	if c.concurrency < 0 {
		return fmt.Errorf("-concurrency %d: want at least 1, or 0 for the default", c.concurrency)
	}
	if c.workers < 1 || c.workers > 64 {
		return fmt.Errorf("-workers %d: want 1 to 64", c.workers)
	}
	if c.concurrency == 0 && c.api == apiLLM {
		c.concurrency = 3 * c.workers
	}
	if c.concurrency == 0 {
		c.concurrency = int(min(max(c.limit.Rate()/2, 8), 256))
	}
	if c.api != "" && c.api != apiLLM {
		u, err := url.Parse(c.api)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return fmt.Errorf("-api %q: want a URL such as https://api.example.com/v1/check", c.api)
		}
	}
	if ext := strings.ToLower(filepath.Ext(c.chart)); c.chart != "" && ext != ".svg" && ext != ".png" {
		return fmt.Errorf("-chart %q: want a file name that ends in .svg or .png", c.chart)
	}
	c.outGiven = c.out != ""
	return nil
}

// howToResume says how the next run continues.
func (c *config) howToResume() string {
	if c.outGiven {
		return "run the same command again to continue"
	}
	return fmt.Sprintf("run the same command with -out %s to continue", c.out)
}
