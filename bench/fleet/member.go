package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/bench/internal/child"
)

// MemberRole makes the program one of the processes that make the calls.
const MemberRole = "-fleet-member"

// setup is what a process is told. A field of it is read by the program of BullMQ, too.
type setup struct {
	Contender string
	Redis     string // address
	API       string // URL
	Handlers  int
	Task      time.Duration // how often asynq looks for tasks, and for delayed ones
	Delayed   time.Duration
	Limits    []limit
	Rate      float64 // for the limiter of the first limit
	Burst     int
}

// member is such a process, seen from inside.
type member struct {
	setup
	redis *redis.Client
	http  *http.Client

	mu      sync.Mutex
	entries map[string]int // how often each task entered its handler
}

// Member works until it is stopped. Then it tells how often tasks entered their handlers, and exits
// at once: what is under way counts for nothing.
func Member() int {
	m := &member{entries: map[string]int{}}
	err := child.Told(&m.setup)
	if err == nil {
		err = m.start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	lines := json.NewEncoder(os.Stdout)
	_ = lines.Encode("ready") // who does not read it has gone, and then stdin ends
	child.UntilStopped()
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = lines.Encode(m.entries)
	return 0
}

func (m *member) start() error {
	m.redis = redis.NewClient(&redis.Options{Addr: m.Redis})
	m.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: m.Handlers}}
	c, ok := contenderNamed(m.Contender)
	if !ok {
		return fmt.Errorf("there is no contender %q", m.Contender)
	}
	config := asynq.Config{
		Concurrency: m.Handlers, TaskCheckInterval: m.Task, DelayedTaskCheckInterval: m.Delayed,
		LogLevel: asynq.ErrorLevel, Queues: map[string]int{"default": 1, "soon": 1},
	}
	handler, err := c.serve(m, &config)
	if err != nil {
		return err
	}
	return asynq.NewServer(asynq.RedisClientOpt{Addr: m.Redis}, config).Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		id, _ := asynq.GetTaskID(ctx)
		m.mu.Lock()
		m.entries[id]++
		m.mu.Unlock()
		return handler.ProcessTask(ctx, task)
	}))
}

// workTime is how long a handler is busy after its call, unless the call itself takes time.
const workTime = 5 * time.Millisecond

// call makes the task's call, and works. The moment is when the limiter let it; zero: nobody said.
func (m *member) call(ctx context.Context, task *asynq.Task, due time.Time) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.API+"/"+string(task.Payload()), nil)
	if err != nil {
		return err
	}
	id, _ := asynq.GetTaskID(ctx)
	request.Header.Set(taskHeader, id)
	if !due.IsZero() {
		request.Header.Set(dueHeader, strconv.FormatInt(due.UnixNano(), 10))
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
	if m.Limits[0].Slots == 0 {
		time.Sleep(workTime)
	}
	return nil
}
