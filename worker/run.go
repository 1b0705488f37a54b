package worker

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/hibiken/asynq"
)

// Run starts the server with the Worker's middleware around handler, and returns
// when it was shut down: when ctx ends, after SIGTERM, or after an interrupt,
// unless the program ignores those (the parent of the process leads). It drains
// the Worker; handlers that work, and tasks in their last attempt that wait, may finish
// within the server's ShutdownTimeout.
// Use it instead of the server's own Run, which lets tasks sleep on until that
// timeout.
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

// Shutdown ends all sleep and shuts the server down, see [Worker.Run].
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

// Drain ends all sleep: tasks that wait go back and keep their places, and so do
// those that still come. Tasks that were given their turn, which is at most half a
// second ahead, still run. There is no way back. It returns at once.
func (w *Worker) Drain() { w.drain() }

// Draining is closed by Drain, for handlers that wait for something else and
// could stop as well.
func (w *Worker) Draining() <-chan struct{} { return w.draining.Done() }
