// Command batch sends the records of a CSV or JSONL file to a paid, rate-limited HTTP API. Every
// call waits for its turn in a queue that all processes with the same Redis share. So the API
// refuses no call, and the whole limit is used. It can be killed at any time; a second run
// continues where the first one stopped, and pays for nothing twice.
//
//	go run ./examples/batch           # a sample, a demo API, an embedded Redis
//	go run ./examples/batch -h        # your file, your API, your Redis
//	go run ./examples/batch -api llm  # four processes, and three limits at once
//
// The queue is the one call turns.Wait in pipeline.go; limiter.go sets it up. The files of records and
// results and the demo APIs are in internal/example.
//
// With -api llm the API is a language model. Each call needs one request, some tokens, and a part of
// a quota. The program starts worker processes (fleet.go) and sends them the records (lead.go). A
// worker takes the turn of a call from all limits, with the most tokens that the call can cost. When
// the response states the real cost, it settles the difference (attempt in llm_worker.go).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/fleetpace/fleetpace/internal/example"
)

func main() {
	os.Exit(command(os.Args[1:]))
}

// command runs the program and returns the exit code. It is 0 if every record is done, 1 if some
// failed or the run ended early, 2 for wrong flags, and 130 after Ctrl-C.
func command(args []string) int {
	if len(args) == 1 && args[0] == example.WorkerArgument {
		return workerMain()
	}
	cfg, err := parseFlags(args, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "batch:", err)
		return 2
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first Ctrl-C lets the calls in flight finish, the second one ends the program at once.
	context.AfterFunc(ctx, stop)

	rep, err := run(ctx, cfg, os.Stderr)
	if rep != nil {
		if printErr := rep.print(cfg, os.Stdout, os.Stderr); printErr != nil {
			err = errors.Join(err, printErr)
		}
	}
	if err == nil {
		err = rep.missing()
	}
	if err == nil {
		if rep.Failed > 0 {
			return 1
		}
		return 0
	}
	fmt.Fprintln(os.Stderr, "batch: stopped:", err)
	if rep != nil {
		fmt.Fprintln(os.Stderr, "batch:", cfg.howToResume())
	}
	if ctx.Err() != nil {
		return 130
	}
	return 1
}
