// Command crawler is a polite, distributed web crawler: several worker
// processes share one limit for the whole crawl and one per host, through
// Redis.
//
//	go run ./examples/crawler
//
// starts everything that it needs: an embedded Redis, a demo site of some 300
// pages on three hosts, guarded by a provider that refuses every request which
// comes too early, and three worker processes. -h lists what else it can do.
//
// The frontier is a queue of asynq with one task per URL. Package worker gives
// each task its turn, under the limits of its host and of the crawl at once
// (turns.go): one whose turn is far away goes back to the frontier until then. A
// visit that has its turn fetches the page (visit.go), puts the links that it
// finds on the frontier and hands the page to the parent process, which writes it.
//
// # What a crash costs
//
// A task ends only when the line of its page is in the output file, so no page
// is lost whatever dies when. After Ctrl-C, or when the parent alone is killed,
// the workers put their tasks back and the next run with the same -redis and
// -run goes on at once. Tasks in the hands of workers that were killed come
// back when asynq has waited for their leases to run out, within about two
// minutes; the rest of the frontier goes on meanwhile. A page that was written
// but not yet ticked off is then fetched again, and not written again when -out
// is the same file.
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

// workerArgument, alone on the command line, makes this program one worker
// process of a fleet; the parent starts it so.
const workerArgument = "-worker-process"

func main() {
	if len(os.Args) == 2 && os.Args[1] == workerArgument {
		os.Exit(workerMain())
	}
	os.Exit(parentMain())
}

func parentMain() int {
	opts, err := parseOptions(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "crawler:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The second Ctrl-C must end a program that hangs in its clean stop.
	context.AfterFunc(ctx, stop)
	err = crawl(ctx, opts, os.Stdout, os.Stderr)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errInterrupted):
		return 130 // as shells expect after Ctrl-C
	default:
		fmt.Fprintln(os.Stderr, "crawler:", err)
		return 1
	}
}
