package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/hashicorp/golang-lru/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

const (
	visitTask = "crawl:visit"

	// visitedFor is how long a finished URL is remembered, so a run can be continued for this long.
	visitedFor = 7 * 24 * time.Hour

	// neverArchive is asynq's MaxRetry. asynq archives a task that comes back without retries left,
	// even if it was only interrupted. With a limit that is never reached, the visit itself decides
	// when to give up (maxAttempts).
	neverArchive = 1_000_000

	rememberedURLs = 50_000
)

// target is the payload of a task: one URL to visit.
type target struct {
	URL   string `json:"url"`
	Depth int    `json:"depth"`          // links from the entry page
	Hops  int    `json:"hops,omitempty"` // redirects in a row that led here
}

// frontier is the set of URLs of one run, in Redis: visited and still to be visited. Each URL is
// one task, whose ID is made from the run and the URL. So a URL is added atomically, and once in
// the life of the run, whichever worker finds it, and whatever crashes. It is safe for concurrent
// use.
type frontier struct {
	client *asynq.Client
	run    string
	hosts  map[string]bool // hosts that may be visited

	// known saves round trips for links that are on every page. It may lose entries, because Redis
	// has them all.
	known *lru.Cache[string, struct{}]
}

func newFrontier(client redis.UniversalClient, run string, hosts []string) *frontier {
	f := &frontier{client: asynq.NewClientFromRedisClient(client), run: run, hosts: make(map[string]bool)}
	for _, h := range hosts {
		f.hosts[h] = true
	}
	f.known, _ = lru.New[string, struct{}](rememberedURLs) // fails only for sizes below 1
	return f
}

func queueName(run string) string { return "crawl-" + run }

func taskID(run, normalisedURL string) string {
	sum := sha256.Sum256([]byte(run + "\n" + normalisedURL))
	return hex.EncodeToString(sum[:16])
}

// inScope reports whether the run may visit u.
func (f *frontier) inScope(u *url.URL) bool { return f.hosts[u.Host] }

// add adds a normalised URL to the frontier, unless it is or was there. It reports whether the URL
// is new.
func (f *frontier) add(ctx context.Context, t target) (bool, error) {
	id := taskID(f.run, t.URL)
	if f.known.Contains(id) {
		return false, nil
	}
	payload, err := json.Marshal(t)
	if err != nil {
		return false, err
	}
	_, err = f.client.EnqueueContext(ctx, asynq.NewTask(visitTask, payload),
		asynq.Queue(queueName(f.run)), asynq.TaskID(id), asynq.Retention(visitedFor),
		asynq.MaxRetry(neverArchive))
	if err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) {
		return false, fmt.Errorf("frontier: add %s: %w", t.URL, err)
	}
	f.known.Add(id, struct{}{})
	return err == nil, nil
}

// backlog is the number of URLs in each state, at one moment.
type backlog struct {
	unknown bool // Redis did not answer
	waiting int  // to be visited, now or later
	active  int  // taken by a worker, alive or dead
	visited int
}

func (b backlog) empty() bool { return !b.unknown && b.waiting == 0 && b.active == 0 }

// countBacklog reads the backlog from Redis. The numbers come from one script, and a visit adds its
// links before it ends, so an empty frontier stays empty.
func countBacklog(inspector *asynq.Inspector, run string) (backlog, error) {
	info, err := inspector.GetQueueInfo(queueName(run))
	if err != nil {
		return backlog{unknown: true}, fmt.Errorf("frontier: count: %w", err)
	}
	return backlog{
		waiting: info.Pending + info.Scheduled + info.Retry,
		active:  info.Active,
		visited: info.Completed,
	}, nil
}

// againError returns a visit to the frontier. It waits for another turn.
type againError struct {
	cause  error
	after  time.Duration
	failed bool // counts as an attempt; if after is 0, each one comes back later than the one before
}

func (e *againError) Error() string { return e.cause.Error() }
func (e *againError) Unwrap() error { return e.cause }

// isFailure tells asynq which errors count as attempts. The end of a lease counts, so a page that
// kills its workers is given up at some point.
func isFailure(err error) bool {
	var again *againError
	return !errors.As(err, &again) || again.failed
}

// retryDelay tells asynq when a task comes back.
func retryDelay(attempt int, err error, _ *asynq.Task) time.Duration {
	var again *againError
	if errors.As(err, &again) && (again.after > 0 || !again.failed) {
		return again.after
	}
	return time.Second << min(attempt, 5)
}
