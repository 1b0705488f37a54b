package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/bench/internal/child"
)

// memberRole makes the program a server's process.
const memberRole = "-member"

// member is a server's process, seen from inside.
type member struct {
	setup setup
	redis *redis.Client
	http  *http.Client
	notes *notes
}

func memberMain() int {
	m := &member{notes: newNotes(os.Stdout)}
	if err := child.Told(&m.setup); err != nil {
		fmt.Fprintln(os.Stderr, "fleet: a member got no setup:", err)
		return 1
	}
	if err := m.start(); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		return 1
	}
	m.notes.write(note{Kind: ready, At: time.Now()})
	child.UntilStopped()
	// The race is over: what is under way counts for nothing, and Redis is
	// emptied. So nothing is shut down.
	m.notes.close()
	return 0
}

func (m *member) start() error {
	options, err := redis.ParseURL(m.setup.Redis)
	if err != nil {
		return err
	}
	m.redis = redis.NewClient(options)
	m.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: m.setup.Handlers}}
	c, ok := contenderNamed(m.setup.Contender)
	if !ok {
		return fmt.Errorf("there is no contender %q", m.setup.Contender)
	}
	config := asynq.Config{
		Concurrency:              m.setup.Handlers,
		TaskCheckInterval:        m.setup.Polls.Task,
		DelayedTaskCheckInterval: m.setup.Polls.Delayed,
		LogLevel:                 asynq.ErrorLevel,
		Queues:                   map[string]int{},
	}
	for _, queue := range m.setup.Queues {
		config.Queues[queue] = 1
	}
	handler, err := c.serve(m, &config)
	if err != nil {
		return err
	}
	queue, err := asynq.ParseRedisURI(m.setup.Redis)
	if err != nil {
		return err
	}
	return asynq.NewServer(queue, config).Start(m.counted(handler))
}

// counted notes each entry of a task.
func (m *member) counted(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		id, _ := asynq.GetTaskID(ctx)
		m.notes.write(note{Kind: entered, Task: id, At: time.Now()})
		return next.ProcessTask(ctx, task)
	})
}

// promise notes a moment that the limiter named.
func (m *member) promise(ctx context.Context, when time.Time) {
	id, _ := asynq.GetTaskID(ctx)
	m.notes.write(note{Kind: promised, Task: id, At: time.Now(), Promise: when})
}

// workTime is how long a handler is busy after its call, unless the API itself takes time.
const workTime = 5 * time.Millisecond

// call makes the task's call, and works.
func (m *member) call(ctx context.Context, task *asynq.Task, due time.Time) error {
	id, _ := asynq.GetTaskID(ctx)
	status, err := post(ctx, m.http, m.setup.API+"/"+string(task.Payload()), id, due)
	if err != nil {
		return err
	}
	switch status {
	case http.StatusTooManyRequests:
		return errRefused
	case http.StatusNoContent:
	default:
		return fmt.Errorf("the API answered %d", status)
	}
	if m.setup.Limits[0].Slots == 0 {
		time.Sleep(workTime)
	}
	return nil
}
