// Command calm waits until this machine runs processes whenever they want to, so that what
// measures when calls arrive can begin:
//
//	go run ./internal/stall/calm -for 5s -within 10m
//
// It says what it waited for, and succeeds in any case: what follows is judged by the same
// bounds, calm or not.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/fleetpace/fleetpace/internal/stall"
)

func main() {
	quiet := flag.Duration("for", 5*time.Second, "how long the machine must be calm")
	within := flag.Duration("within", 10*time.Minute, "wait at most so long")
	flag.Parse()
	ctx, stop := context.WithTimeout(context.Background(), *within)
	defer stop()
	began := time.Now()
	err := stall.Calm(ctx, *quiet)
	waited := time.Since(began).Round(time.Second)
	switch {
	case err != nil:
		fmt.Fprintf(os.Stderr, "calm: this machine stalled for more than a hundredth of the time in all of %v\n", waited)
	case waited > *quiet+time.Second:
		fmt.Fprintf(os.Stderr, "calm: waited %v until this machine did not stall for %v\n", waited, *quiet)
	}
}
