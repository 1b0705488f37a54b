package redistest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

// init turns the process into a keeper when it was started as one, before any
// test code runs.
func init() {
	encoded, asked := os.LookupEnv(envKeeper)
	if !asked {
		return
	}
	_ = os.Unsetenv(envKeeper) // the server must not inherit it
	// Inside init this goroutine runs on the process's main thread. A server
	// must be started from there: Linux ends it with the thread that started it.
	runtime.LockOSThread()
	if err := keep(encoded); err != nil {
		fmt.Fprintln(os.Stderr, "redistest: keeper:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// running is a server, as its keeper sees it.
type running struct {
	url    string
	id     string       // of the container or process
	remove func() error // removes the process or container, and the directory
}

// keep starts the server of the order, reports it, and removes it when
// standard input ends.
func keep(encoded string) error {
	// An interrupt goes to the terminal's whole group, and CI may signal every process it finds.
	// A keeper must not exit before the test binary. The signals are caught and not ignored,
	// because the server would inherit that they are ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)

	var want order
	if err := json.Unmarshal([]byte(encoded), &want); err != nil {
		return fmt.Errorf("%s=%q: %w", envKeeper, encoded, err)
	}

	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel() // a start under way stops too
		close(ended)
	}()

	server, err := start(ctx, want)
	if err != nil {
		return json.NewEncoder(os.Stdout).Encode(report{Error: err.Error()})
	}
	if err := json.NewEncoder(os.Stdout).Encode(report{URL: server.url, ID: server.id}); err != nil {
		return errors.Join(err, server.remove())
	}
	<-ended
	return server.remove()
}

func start(ctx context.Context, want order) (running, error) {
	switch want.Kind {
	case KindDocker:
		return startContainer(ctx, want.Image)
	case KindLocal:
		return startProcess(ctx, want.Args)
	default:
		return running{}, fmt.Errorf("no keeper for a server of kind %q", want.Kind)
	}
}
