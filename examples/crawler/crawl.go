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

// errInterrupted ends a crawl that Ctrl-C stopped cleanly.
var errInterrupted = errors.New("interrupted")

// crawl runs one crawl from the parent's side. It returns errInterrupted when
// ctx ended it.
func crawl(ctx context.Context, opts options, stdout *os.File, stderr *os.File) error {
	s := &scene{opts: &opts}
	defer s.close()
	if err := s.prepare(ctx); err != nil {
		return err
	}
	say(stderr, "%s\n", s.greeting())
	if s.page != "" {
		say(stderr, "the limits are shown at %s\n", s.page)
	}
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	sleeper := bare.Watch(watching)
	t, end, err := s.run(ctx, stderr)
	beside := sleeper.Figures()
	if t == nil {
		return err
	}

	r, calls := t.sum(s.site, opts.qps)
	r.Figures, r.Complete, r.Run, r.Out = beside, end.empty(), opts.run, s.out.file.Name()
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

// missing says what a complete crawl of a site of our own lost, of which it is known what
// there is to be found, or what it should have left alone.
func (s *scene) missing(r result, t *tally) error {
	switch {
	case r.RobotsViolations != nil && *r.RobotsViolations > 0:
		return fmt.Errorf("%d requests were for what robots.txt forbids", *r.RobotsViolations)
	case s.site == nil || s.site.pages < 0 || s.continued || !r.Complete:
		return nil // nobody knows, or not all was visited
	case r.Pages != s.site.pages:
		return fmt.Errorf("%d pages were found of the %d that the site has; %d URLs were given up", r.Pages, s.site.pages, t.outcomes[failed])
	}
	return nil
}

// chartPath is where the picture goes: beside the pages unless -chart says
// otherwise.
func (s *scene) chartPath() string {
	if s.opts.chart != "" {
		return s.opts.chart
	}
	out := s.out.file.Name()
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

// farewell says how to go on, and clears away what nobody can continue.
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

// say writes for a person; nobody there is no reason to fail.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
