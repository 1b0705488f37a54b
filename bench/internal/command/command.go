// Package command is what the programs do alike on the command line: how they read
// their flags, stop at Ctrl-C, and exit.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Run parses the arguments, works with what they say until ctx ends, and returns the
// exit code. What fails is told on stderr.
func Run[O any](name string, args []string, parse func(args []string, stderr io.Writer) (O, error), work func(ctx context.Context, o O) error) int {
	opts, err := parse(args, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The second Ctrl-C must end a program that hangs in its clean stop.
	context.AfterFunc(ctx, stop)
	err = work(ctx, opts)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintf(os.Stderr, "%s: interrupted\n", name)
		return 130 // as shells expect after Ctrl-C
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}
