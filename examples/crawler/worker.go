package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/example"
	"github.com/fleetpace/fleetpace/internal/example/web"
	"github.com/fleetpace/fleetpace/internal/scrape"
	"github.com/fleetpace/fleetpace/worker"
)

const (
	// grace is how long requests under way may take when a worker stops.
	grace = 3 * time.Second

	// workerStopLimit is how long a worker may take to stop. A worker must not outlive its parent
	// for long, also if it cannot stop cleanly, for example because Redis is gone.
	workerStopLimit = grace + 5*time.Second

	// handlers is how many visits of one worker may run at once, from their turn until their page
	// is saved.
	handlers = 100
)

// workerMain is the main function of a worker process.
func workerMain() int {
	// Ctrl-C reaches the whole process group, but the parent decides when workers stop. Without
	// SIGPIPE, a write to a dead parent is an ordinary error.
	signal.Ignore(os.Interrupt, syscall.SIGPIPE)
	up := newReporter(os.Stdout)
	os.Stdout = os.Stderr // only reports may go to stdout
	if err := work(os.Stdin, up); err != nil {
		up.fatal(err)
		return 1
	}
	return 0
}

// work runs one worker until the parent stops it or is gone.
func work(stdin io.Reader, up *reporter) error {
	orders := json.NewDecoder(stdin)
	var first order
	if err := orders.Decode(&first); err != nil || first.Setup == nil {
		return fmt.Errorf("the first line on stdin is not a setup: this is a worker process; run the program without %s", example.WorkerArgument)
	}
	cfg := *first.Setup

	opts, err := redis.ParseURL(cfg.RedisURL)
	if err != nil {
		return err
	}
	redis.SetLogger(example.Quiet{})
	client := redis.NewClient(opts)
	defer client.Close()
	turns, err := newTurns(client, cfg.QPS, cfg.PerHost)
	if err != nil {
		return err
	}

	waiting, stopWaiting := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stopWaiting()
	v := &visitor{
		name: cfg.Name, turns: turns, fetcher: web.NewFetcher(), up: up,
		frontier: newFrontier(client, cfg.Run, cfg.Hosts),
		waiting:  waiting,
	}
	v.robots = &web.Robots{Redis: client, Prefix: keyOf(cfg.Run, "robots:"), IsFailure: isFailure, Life: waiting, InScope: v.frontier.inScope, Learned: v.obey,
		Fetch: func(ctx context.Context, u *url.URL) (web.Answer, error) {
			_, got, err := v.get(ctx, u, true)
			return got, err
		}}

	w, err := worker.New(turns.crawl, worker.Config{Need: v.turn, Logger: slog.New(slog.NewTextHandler(up, nil))})
	if err != nil {
		return err
	}
	config := asynq.Config{
		Concurrency:     handlers,
		Queues:          map[string]int{queueName(cfg.Run): 1},
		IsFailure:       isFailure,
		RetryDelayFunc:  retryDelay,
		ShutdownTimeout: grace,
		Logger:          example.NewAsynqLog(up.note, up.fatal),
		LogLevel:        asynq.WarnLevel,
	}
	if err := w.Apply(&config); err != nil {
		return err
	}
	if cfg.Metrics != "" {
		at, err := scrape.Process(waiting, cfg.Metrics)
		if err != nil {
			return err
		}
		up.note("its metrics are at http://" + at + "/metrics")
	}
	go v.reportBusy(waiting, w)
	go obey(orders, up, stopWaiting)
	context.AfterFunc(waiting, func() {
		time.Sleep(workerStopLimit)
		up.fatal(errors.New("did not stop in time: its tasks come back when their leases run out"))
		os.Exit(1)
	})
	server := asynq.NewServerFromRedisClient(client, config)
	if err := server.Start(w.Middleware(v)); err != nil {
		return err
	}
	<-waiting.Done()
	w.Shutdown(server)
	return turns.close()
}

// obey calls stop when the parent orders it or is gone.
func obey(orders *json.Decoder, up *reporter, stop func()) {
	defer stop()
	for {
		var o order
		if orders.Decode(&o) != nil {
			return
		}
		if o.Stop {
			stop()
		}
		if o.Saved != 0 {
			up.saved(o.Saved) // the parent still saves pages while the worker stops
		}
	}
}
