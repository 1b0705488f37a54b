package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

const (
	// grace is how long requests under way may take to finish when a worker is
	// told to stop.
	grace = 3 * time.Second

	// A worker that cannot stop cleanly, for example because Redis is gone
	// too, must not outlive its parent for long.
	workerStopLimit = grace + 5*time.Second

	// asynq polls an empty queue. Often, so that links which have just been
	// found do not lie there while turns go by.
	taskCheckInterval = 20 * time.Millisecond
	// How often it looks for tasks that are due to come back.
	delayedCheckInterval = 500 * time.Millisecond
)

// workerMain is the main function of a worker process.
func workerMain() int {
	// Ctrl-C reaches the whole process group, but stopping is the parent's to
	// lead. Without SIGPIPE a write to a dead parent is an error like others.
	signal.Ignore(os.Interrupt, syscall.SIGPIPE)
	up := newReporter(os.Stdout)
	os.Stdout = os.Stderr // stdout is the wire; nothing else may write to it
	if err := work(os.Stdin, up); err != nil {
		up.fatal(err)
		return 1
	}
	return 0
}

// work runs one worker until the parent says stop or is gone.
func work(stdin io.Reader, up *reporter) error {
	orders := json.NewDecoder(stdin)
	var first order
	if err := orders.Decode(&first); err != nil || first.Setup == nil {
		return fmt.Errorf("the first line on stdin is not a setup: this is a worker process; run the program without %s", workerArgument)
	}
	cfg := *first.Setup

	opts, err := redis.ParseURL(cfg.RedisURL)
	if err != nil {
		return err
	}
	redis.SetLogger(quiet{})
	client := redis.NewClient(opts)
	defer client.Close()
	turns, err := newTurns(client, cfg.QPS, cfg.PerHost, cfg.Processes)
	if err != nil {
		return err
	}

	waiting, stopWaiting := context.WithCancel(context.Background())
	defer stopWaiting()
	sending, stopSending := context.WithCancel(context.Background())
	defer stopSending()
	v := &visitor{
		name: cfg.Name, turns: turns, fetcher: newFetcher(), up: up,
		frontier: newFrontier(client, cfg.Run, cfg.Hosts),
		waiting:  waiting, sending: sending,
	}
	v.robots = &robots{redis: client, run: cfg.Run, life: waiting,
		fetch: func(ctx context.Context, u *url.URL) (answer, error) {
			_, got, err := v.get(ctx, u, 0, true)
			return got, err
		}}

	server := asynq.NewServerFromRedisClient(client, asynq.Config{
		Concurrency:              handlers(cfg.QPS, cfg.Processes),
		Queues:                   map[string]int{queueName(cfg.Run): 1},
		TaskCheckInterval:        taskCheckInterval,
		DelayedTaskCheckInterval: delayedCheckInterval,
		IsFailure:                isFailure,
		RetryDelayFunc:           retryDelay,
		ShutdownTimeout:          grace + time.Second,
		Logger:                   asynqLog{up: up, last: new(atomic.Int64)},
		LogLevel:                 asynq.WarnLevel,
	})
	if err := server.Start(v); err != nil {
		return err
	}

	go v.reportBusy(sending)
	orphaned := obey(orders, up)
	time.AfterFunc(workerStopLimit, func() {
		up.fatal(errors.New("did not stop in time: its tasks come back when their leases run out"))
		os.Exit(1)
	})
	server.Stop() // no new tasks
	stopWaiting() // tasks that wait go back now
	if orphaned {
		stopSending() // nobody is left to save the pages that are under way
	} else {
		time.AfterFunc(grace, stopSending)
	}
	server.Shutdown()
	return turns.close()
}

// obey returns when the worker has to stop: the parent said so or is gone
// (orphaned), or somebody sent SIGTERM.
func obey(orders *json.Decoder, up *reporter) (orphaned bool) {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	told, gone := make(chan struct{}, 1), make(chan struct{})
	go func() {
		for {
			var o order
			if err := orders.Decode(&o); err != nil {
				close(gone)
				return
			}
			if o.Stop {
				told <- struct{}{}
			}
			if o.Saved != 0 {
				up.saved(o.Saved) // pages are still saved while the worker stops
			}
		}
	}()
	select {
	case <-told:
		return false
	case <-term:
		return false
	case <-gone:
		return true
	}
}

// handlers is how many visits one worker has in hand. Together the fleet holds
// about four seconds of work: enough that somebody always waits for the next
// turn, and few enough that the wait stays below patience.
func handlers(qps float64, processes int) int {
	n := math.Ceil(4 * qps / float64(processes))
	return int(min(max(n, 4), 100))
}

// asynqLog passes on what asynq complains about, a line every few seconds at
// most: when Redis is away it complains about every task.
type asynqLog struct {
	up   *reporter
	last *atomic.Int64 // Unix seconds of the last line
}

const asynqLogEvery = 5 // seconds

func (asynqLog) Debug(...any)     {}
func (asynqLog) Info(...any)      {}
func (l asynqLog) Warn(a ...any)  { l.pass(fmt.Sprint(a...)) }
func (l asynqLog) Error(a ...any) { l.pass(fmt.Sprint(a...)) }
func (l asynqLog) Fatal(a ...any) { l.up.fatal(errors.New("asynq: " + fmt.Sprint(a...))); os.Exit(1) }

func (l asynqLog) pass(text string) {
	if strings.HasPrefix(text, "recoverer:") && strings.HasSuffix(text, "NOT FOUND") {
		return // another worker was faster at bringing the task back
	}
	now, last := time.Now().Unix(), l.last.Load()
	if now-last >= asynqLogEvery && l.last.CompareAndSwap(last, now) {
		l.up.note("asynq: " + text[:min(len(text), 200)])
	}
}
