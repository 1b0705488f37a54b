// Command fleet lets a fleet of asynq server processes call a rate-limited API,
// paced by this project and by its peers, and measures how much of the limit
// each of them uses, how many calls are refused, and how late calls are.
//
//	go run ./fleet -scenario one
//
// It needs a redis-server in PATH, or -redis. Run it with -h for the scenarios,
// the contenders and what the columns mean.
//
// The program starts itself again for the servers' processes, for the bare callers
// beside them and for the keeper of its Redis; what they say to each other is JSON
// lines on stdin and stdout.
// When the parent dies, however it does, their stdin ends, and so do they.
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
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	if len(args) == 1 {
		switch args[0] {
		case memberArgument:
			return memberMain()
		case bareArgument:
			return bareMain()
		case keeperArgument:
			return keeperMain()
		}
	}
	opts, err := parseOptions(args, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The second Ctrl-C must end a program that hangs in its clean stop.
	context.AfterFunc(ctx, stop)
	err = race(ctx, opts, os.Stdout, os.Stderr)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "fleet: interrupted")
		return 130 // as shells expect after Ctrl-C
	case err != nil:
		fmt.Fprintln(os.Stderr, "fleet:", err)
		return 1
	}
	return 0
}
