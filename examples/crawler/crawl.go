package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/internal/bare"
	"github.com/fleetpace/fleetpace/internal/chart"
)

const chartBin = 100 * time.Millisecond

// errInterrupted says that Ctrl-C stopped the crawl cleanly.
var errInterrupted = errors.New("interrupted")

// crawl runs one crawl in the parent process. It returns errInterrupted if ctx ended it.
func crawl(ctx context.Context, opts options, stdout *os.File, stderr *os.File) error {
	s := &scene{opts: &opts}
	defer s.close()
	if err := s.prepare(ctx, stderr); err != nil {
		return err
	}
	say(stderr, "%s\n", s.greeting())
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	sleeper := bare.Watch(watching)
	t, end, err := s.run(ctx, stderr)
	beside := sleeper.Figures()
	if t == nil {
		return err
	}

	r, calls := t.sum(s.site, opts.qps)
	r.Figures, r.Complete, r.Run, r.Out = beside, end.empty(), opts.run, s.out.Name()
	if path := s.chartPath(); len(calls) > 0 {
		title := fmt.Sprintf("Requests of %d processes that share %g/s", r.Processes, opts.qps)
		if drawErr := chart.Requests(path, title, calls, chartBin, opts.qps); drawErr != nil {
			say(stderr, "picture: %v\n", drawErr)
		} else {
			r.Chart = path
		}
	}
	human := io.Writer(stdout)
	if opts.json {
		human = stderr
	}
	writeSummary(human, r, t, s)
	s.farewell(human, r, end)
	if opts.json {
		if jsonErr := writeJSON(stdout, r); jsonErr != nil {
			return jsonErr
		}
	}
	if err == nil && len(calls) > 0 && r.Pages == 0 && t.outcomes[failed] > 0 {
		return fmt.Errorf("nothing of %s could be fetched: check the address and the network", recordOf(&opts))
	}
	if err == nil {
		err = s.missing(r, t)
	}
	return err
}

// missing returns an error if a complete crawl of our own site lost pages, or visited URLs that
// robots.txt forbids.
func (s *scene) missing(r result, t *tally) error {
	switch {
	case r.RobotsViolations != nil && *r.RobotsViolations > 0:
		return fmt.Errorf("%d requests were for URLs that robots.txt forbids", *r.RobotsViolations)
	case s.site == nil || s.site.Pages < 0 || s.continued || !r.Complete:
		return nil // the number of pages is unknown, or the crawl is incomplete
	case r.Pages != s.site.Pages:
		return fmt.Errorf("%d pages were found of the %d that the site has; %d URLs were given up", r.Pages, s.site.Pages, t.outcomes[failed])
	}
	return nil
}

// chartPath is the file of the chart: beside the pages, unless -chart names another.
func (s *scene) chartPath() string {
	if s.opts.chart != "" {
		return s.opts.chart
	}
	out := s.out.Name()
	return strings.TrimSuffix(out, filepath.Ext(out)) + ".svg"
}

func (s *scene) greeting() string {
	where := "an embedded Redis"
	if s.opts.redisURL != "" {
		where = "the Redis at " + s.redis.Options().Addr
	}
	verb := "crawls"
	if s.continued {
		verb = "continues with"
	}
	return fmt.Sprintf("run %s %s %s: %d worker processes share %g requests/s (%g/s per host) through %s",
		s.opts.run, verb, recordOf(s.opts), s.opts.workers, s.opts.qps, s.perHost, where)
}

// farewell says how to continue, and deletes the run's keys if it cannot be continued.
func (s *scene) farewell(w io.Writer, r result, end backlog) {
	switch {
	case r.Complete && s.opts.newRun:
		_ = s.inspector.DeleteQueue(queueName(s.opts.run), true)
		_ = s.redis.Del(context.Background(), keyOf(s.opts.run, "record")).Err()
	case r.Complete && r.Requests == 0:
		say(w, "\nRun %s is complete; another -run name crawls again.\n", s.opts.run)
	case r.Complete, end.unknown:
	case s.opts.redisURL == "":
		say(w, "\n%d URLs were not visited. An embedded Redis forgets them; with -redis, the crawl can be continued.\n", end.waiting+end.active)
	default:
		say(w, "\n%d URLs are still to be visited: give the same command with -run %s to continue.\n", end.waiting+end.active, s.opts.run)
	}
}

// say writes for a person. It ignores errors.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
