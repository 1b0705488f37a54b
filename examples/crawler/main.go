// Command crawler is a polite, distributed web crawler: several worker processes share one limit for
// the whole crawl and one per host, through Redis.
//
//	go run ./examples/crawler
//
// This starts an embedded Redis, a demo site of some 300 pages on three hosts, and three worker
// processes. A strict provider in front of the site refuses every request that comes too early. -h
// lists the options.
//
// The frontier is a queue of asynq with one task per URL. Package worker gives each task its turn, from
// the limits of its host and of the crawl together (turns.go). If the turn is far away, the task is
// rescheduled. A visit that has its turn fetches the page (visit.go) and adds its links to the frontier.
// Then it sends the page to the parent process, which writes it. The demo site, the rules of robots.txt and
// the files are in internal/example.
//
// # What a crash costs
//
// A task ends only when the line of its page is in the output file, so a crash loses no page. After
// Ctrl-C, or if only the parent is killed, the workers reschedule their tasks. The next run with the
// same -redis and -run continues at once.
//
// If workers are killed, asynq returns their tasks when their leases end, within about two minutes; the
// other tasks continue meanwhile. A page that was written, but whose task had not ended, is fetched
// again. It is not written again if -out is the same file.
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
	if len(os.Args) == 2 && os.Args[1] == example.WorkerArgument {
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
	// The second Ctrl-C ends the program, also if its clean stop hangs.
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
