package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fleetpace/fleetpace/internal/example"
	"github.com/fleetpace/fleetpace/internal/example/web"
	"github.com/fleetpace/fleetpace/worker"
)

// maxAttempts is how often a URL is tried if the server fails or refuses.
const maxAttempts = 4

const busyEvery = 200 * time.Millisecond

// visitor handles the tasks of one worker process. It is safe for concurrent use.
type visitor struct {
	name     string
	frontier *frontier
	robots   *web.Robots
	turns    *turns
	fetcher  *web.Fetcher
	up       *reporter

	// waiting ends when the process is to stop. Then no visit waits for a turn any more. Requests
	// under way, which have used their turns, may finish.
	waiting context.Context
}

// targetOf reads the payload of a task. A wrong payload makes asynq archive the task.
func targetOf(task *asynq.Task) (t target, u *url.URL, err error) {
	if err = json.Unmarshal(task.Payload(), &t); err == nil {
		u, err = url.Parse(t.URL)
	}
	if err != nil {
		err = fmt.Errorf("payload %q: %w: %w", task.Payload(), err, asynq.SkipRetry)
	}
	return t, u, err
}

// turn returns the limits that a visit needs before it runs: its host's and the crawl's. A visit
// that sends no request needs no turn. If robots.txt, which decides it, is unknown, it is fetched
// here, with turns of its own.
func (v *visitor) turn(_ context.Context, task *asynq.Task) (worker.Need, error) {
	_, u, err := targetOf(task)
	if err != nil {
		return worker.Need{}, err
	}
	rules, err := v.robots.For(v.waiting, u)
	if err != nil || !rules.Allows(u) {
		return worker.Need{Skip: true}, nil // the visit gets the same result and handles it
	}
	limits, err := v.turns.of(u.Host)
	return worker.Need{Limits: limits}, err
}

// ProcessTask visits one URL, in its turn. It returns nil when the URL is finished.
func (v *visitor) ProcessTask(ctx context.Context, task *asynq.Task) error {
	t, u, err := targetOf(task)
	if err != nil {
		return err
	}
	earlier, _ := asynq.GetRetryCount(ctx)
	attempt := earlier + 1
	if attempt > maxAttempts {
		// Only tasks whose workers died get here.
		return v.giveUp(t, attempt, fmt.Errorf("its worker died %d times", earlier))
	}
	err = v.visit(ctx, t, u, attempt)
	if err != nil && v.waiting.Err() != nil {
		return &againError{cause: errors.New("the crawl was stopped")}
	}
	return err
}

func (v *visitor) visit(ctx context.Context, t target, u *url.URL, attempt int) error {
	rules, err := v.robots.For(ctx, u)
	if err != nil {
		return v.failure(t, attempt, err, 0)
	}
	if !rules.Allows(u) {
		v.up.outcome(disallowed)
		return nil
	}
	sentAt, got, err := v.get(ctx, u, false)
	switch {
	case err != nil:
		return v.failure(t, attempt, err, 0)
	case got.Status == http.StatusTooManyRequests || got.Status >= 500:
		return v.failure(t, attempt, fmt.Errorf("status %d", got.Status), got.RetryAfter)
	case got.IsRedirect():
		return v.redirect(ctx, t, got.Location)
	case !got.IsHTML:
		v.up.outcome(notHTML)
		return nil
	}

	title, links, err := web.Extract(got.Body, got.ContentType, u)
	if err != nil {
		v.up.note(fmt.Sprintf("%s: %v: taken as a page without links", t.URL, err))
	}
	p := example.Page{
		URL: t.URL, Status: got.Status, Title: title, Links: make([]string, 0, len(links)),
		Bytes: len(got.Body), Depth: t.Depth, FetchedAt: sentAt.UTC(), Worker: v.name,
	}
	for _, link := range links {
		p.Links = append(p.Links, link.String())
		if !v.frontier.inScope(link) {
			continue
		}
		if _, err := v.frontier.add(ctx, target{URL: link.String(), Depth: t.Depth + 1}); err != nil {
			return &againError{cause: err, after: time.Second}
		}
	}
	// The links are added before the page is written: otherwise a crash in between would lose them.
	return v.up.page(ctx, p)
}

// get sends one request in its turn and reports it.
func (v *visitor) get(ctx context.Context, u *url.URL, anyType bool) (time.Time, web.Answer, error) {
	if err := v.wait(ctx, u.Host); err != nil {
		return time.Time{}, web.Answer{}, &againError{cause: err}
	}
	sentAt := time.Now()
	got, err := v.fetcher.Get(ctx, u, anyType)
	v.up.request(request{At: sentAt, Status: got.Status})
	if err == nil && got.AsksForPause() {
		if err := v.turns.pause(ctx, u.Host, got.RetryAfter); err != nil {
			v.up.note(fmt.Sprintf("%s asks for a pause of %v: %v", u.Host, got.RetryAfter, err))
		}
	}
	return sentAt, got, err
}

// wait returns when a request to host may start. If the worker has given the visit its turn, it
// returns at once.
func (v *visitor) wait(ctx context.Context, host string) error {
	if _, given := worker.Due(ctx); given {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(v.waiting, cancel)()
	return v.turns.wait(ctx, host)
}

// obey makes the fleet keep the Crawl-delay of a host's robots.txt.
func (v *visitor) obey(ctx context.Context, host string, r web.Rules) error {
	if err := v.turns.slow(ctx, host, r.CrawlDelay()); err != nil {
		return &againError{cause: err, after: time.Second}
	}
	return nil
}

// redirect adds the target of a redirect to the frontier and does not follow it, because each hop
// is a request and needs its own turn.
func (v *visitor) redirect(ctx context.Context, t target, to *url.URL) error {
	switch {
	case !v.frontier.inScope(to):
		if t.Depth == 0 {
			v.up.note(fmt.Sprintf("%s redirects to %s, which is not among the hosts of this crawl: add -hosts %s", t.URL, to, to.Host))
		}
	case t.Hops >= web.MaxHops:
		v.up.note(fmt.Sprintf("%s: more than %d redirects in a row, given up", t.URL, web.MaxHops))
	default:
		if _, err := v.frontier.add(ctx, target{URL: to.String(), Depth: t.Depth, Hops: t.Hops + 1}); err != nil {
			return &againError{cause: err, after: time.Second}
		}
	}
	v.up.outcome(redirected)
	return nil
}

// failure returns the task for another attempt, or gives up after the last one.
func (v *visitor) failure(t target, attempt int, err error, after time.Duration) error {
	if !isFailure(err) || v.waiting.Err() != nil {
		return err
	}
	if attempt >= maxAttempts {
		return v.giveUp(t, attempt, err)
	}
	if attempt == 1 {
		v.up.note(fmt.Sprintf("%s: %v: will be retried", t.URL, err))
	}
	return &againError{cause: err, after: after, failed: true}
}

func (v *visitor) giveUp(t target, attempt int, err error) error {
	v.up.note(fmt.Sprintf("%s: %v: given up after %d attempts", t.URL, err, min(attempt, maxAttempts)))
	v.up.outcome(failed)
	return nil
}

// reportBusy reports to the parent how many visits are under way, until life ends.
func (v *visitor) reportBusy(life context.Context, w *worker.Worker) {
	tick := time.NewTicker(busyEvery)
	defer tick.Stop()
	for last := 0; ; {
		select {
		case <-life.Done():
			return
		case <-tick.C:
		}
		stats := w.Stats()
		if n := int(stats.Asleep) + stats.Working; n != last {
			last = n
			v.up.busy(n)
		}
	}
}
