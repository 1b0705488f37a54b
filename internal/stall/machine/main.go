// Command machine tells whether this machine runs processes whenever they want to, for
// scripts that measure when calls arrive:
//
//	machine calm [-for 5s] [-within 10m]
//	machine watch
//
// calm waits until a process that only sleeps was not kept from running for so long, or
// until the time is over; it says what it waited for and succeeds in any case. watch
// measures until it is terminated, or until who started it is gone, and then prints for
// how many thousandths of the time it was kept.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fleetpace/fleetpace/internal/stall"
)

func main() {
	verb := ""
	if len(os.Args) > 1 {
		verb = os.Args[1]
	}
	flags := flag.NewFlagSet("machine "+verb, flag.ExitOnError)
	switch verb {
	case "calm":
		quiet := flags.Duration("for", 5*time.Second, "how long the machine must be calm")
		within := flags.Duration("within", 10*time.Minute, "wait at most so long")
		_ = flags.Parse(os.Args[2:]) // exits on an error
		calm(*quiet, *within)
	case "watch":
		_ = flags.Parse(os.Args[2:])
		watch()
	default:
		fmt.Fprintln(os.Stderr, "usage: machine calm [-for 5s] [-within 10m] | machine watch")
		os.Exit(2)
	}
}

func calm(quiet, within time.Duration) {
	ctx, stop := context.WithTimeout(context.Background(), within)
	defer stop()
	began := time.Now()
	err := stall.Calm(ctx, quiet)
	waited := time.Since(began).Round(time.Second)
	switch {
	case err != nil:
		fmt.Fprintf(os.Stderr, "calm: this machine stalled for more than a hundredth of the time in all of %v\n", waited)
	case waited > quiet+time.Second:
		fmt.Fprintf(os.Stderr, "calm: waited %v until this machine did not stall for %v\n", waited, quiet)
	}
}

func watch() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	parent := os.Getppid()
	w := stall.Start(ctx)
	for ctx.Err() == nil && os.Getppid() == parent {
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	fmt.Printf("%.0f\n", 1000*w.Share())
}
