package fleet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/bench/internal/child"
)

// MemberRole makes the program one of the processes that make the calls.
const MemberRole = "-fleet-member"

// setup is what a process is told. The program of BullMQ reads it, too.
type setup struct {
	Contender string
	Redis     string // address
	API       string // URL
	Handlers  int
	Limits    []limit
	Rate      float64 // for the limiter of the first limit
	Burst     int
	Jobs      int // to enqueue
}

// polling is how often asynq looks for tasks, and for delayed ones.
const polling = 100 * time.Millisecond

// member is such a process, seen from inside.
type member struct {
	setup
	redis *redis.Client
	http  *http.Client
}

// limit is that of a task.
func (m *member) limit(task *asynq.Task) limit {
	return m.Limits[slices.IndexFunc(m.Limits, func(l limit) bool { return l.Name == string(task.Payload()) })]
}

// Member works until it is stopped, and ends at once: what is under way counts for nothing.
func Member() error {
	m := &member{}
	if err := child.Told(&m.setup); err != nil {
		return err
	}
	m.redis = redis.NewClient(&redis.Options{Addr: m.Redis})
	m.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: m.Handlers}}
	c := contenders[slices.IndexFunc(contenders, func(c contender) bool { return c.name == m.Contender })]
	config := asynq.Config{Concurrency: m.Handlers, TaskCheckInterval: polling, DelayedTaskCheckInterval: polling, LogLevel: asynq.ErrorLevel}
	handler, err := c.serve(m, &config)
	if err != nil {
		return err
	}
	if err := asynq.NewServer(asynq.RedisClientOpt{Addr: m.Redis}, config).Start(handler); err != nil {
		return err
	}
	child.Tell("ready")
	child.UntilStopped()
	return nil
}

// workTime is how long a handler is busy after its call.
const workTime = 5 * time.Millisecond

// call makes the task's call, and works.
func (m *member) call(ctx context.Context, task *asynq.Task) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.API+"/"+string(task.Payload()), nil)
	if err != nil {
		return err
	}
	response, err := m.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	switch response.StatusCode {
	case http.StatusTooManyRequests:
		return errRefused
	case http.StatusNoContent:
	default:
		return fmt.Errorf("the API answered %d", response.StatusCode)
	}
	time.Sleep(workTime)
	return nil
}
