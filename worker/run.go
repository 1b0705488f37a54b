package worker

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/hibiken/asynq"
)

// Run starts the server with the Worker's middleware around handler, and returns after it was shut
// down. The server shuts down when ctx ends, after SIGTERM, or after an interrupt, unless the
// program ignores interrupts. Use Run instead of the server's own Run, which does not wake
// sleeping tasks until its ShutdownTimeout is over.
//
// Run drains the Worker. Running handlers, and waiting tasks in their last attempt, may finish
// within the server's ShutdownTimeout. The error is an [ErrInvalid], for example before Apply, or
// that of the server's Start.
func (w *Worker) Run(ctx context.Context, server *asynq.Server, handler asynq.Handler) error {
	if !w.applied.Load() {
		return invalid("Worker", "call Apply on the asynq.Config before the server is made of it")
	}
	if handler == nil {
		return invalid("handler", "must not be nil")
	}
	signals := []os.Signal{syscall.SIGTERM}
	if !signal.Ignored(os.Interrupt) {
		signals = append(signals, os.Interrupt)
	}
	ctx, stop := signal.NotifyContext(ctx, signals...)
	defer stop()
	if err := server.Start(w.Middleware(handler)); err != nil {
		return err
	}
	<-ctx.Done()
	w.Shutdown(server)
	return nil
}

// Shutdown drains the Worker and shuts the server down, as [Worker.Run] does. It returns after the
// server was shut down. It is for servers that you run with [Worker.Middleware].
func (w *Worker) Shutdown(server *asynq.Server) {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		server.Stop() // may take one TaskCheckInterval
	}()
	w.Drain()
	<-stopped
	server.Shutdown()
}

// Drain wakes all sleeping tasks: they are rescheduled and keep their places, and so are tasks that
// still arrive. Tasks whose turns are granted, at most half a second early, still run. A drained
// Worker cannot be started again. Drain returns at once, and may be repeated.
func (w *Worker) Drain() { w.drain() }

// Draining returns a channel that Drain closes, for handlers that wait for something else and could
// stop as well.
func (w *Worker) Draining() <-chan struct{} { return w.draining.Done() }
