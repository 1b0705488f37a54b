// Command batch sends the records of a CSV or JSONL file to a paid, rate-limited
// HTTP API: every call waits for its own turn in a queue that all processes with
// the same Redis share, so the API refuses nothing and its limit is used to the
// full. It can be killed at any time; a second run goes on where the first one
// stopped and pays for nothing twice.
//
//	go run ./examples/batch           # a sample, a demo API, an embedded Redis
//	go run ./examples/batch -h        # your file, your API, your Redis
//	go run ./examples/batch -api llm  # four processes, and three limits at once
//
// The queue is the one call turns.Wait in pipeline.go; limiter.go sets it up.
//
// With -api llm the API is a language model, of which each call needs a request and
// some tokens, and a part of a quota. The program starts worker processes (fleet.go) and
// hands them the records (lead.go). A worker takes the turn of a call under all limits
// with the most tokens that it can cost, and settles the rest when the answer says what it
// did cost: attempt in llm_worker.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	os.Exit(command(os.Args[1:]))
}

// command is the whole program; it returns the exit code: 0 when every record is
// done, 1 when some failed or the run broke off, 2 for wrong flags, 130 after
// Ctrl-C.
func command(args []string) int {
	if len(args) == 1 && args[0] == workerArgument {
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
	// The first Ctrl-C lets the calls in flight finish, the second one kills.
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
