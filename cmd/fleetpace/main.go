// Command fleetpace shows the state of a fleet's limits, says why calls wait, and changes limits
// while they are in use:
//
//	go install github.com/fleetpace/fleetpace/cmd/fleetpace@latest
//	fleetpace --redis redis://localhost:6379 ls
//	fleetpace why openai
//	fleetpace pause openai --for 10m --reason "their status page is red"
//
// It reads the reports that processes send with their heartbeats, so it does not need their
// configuration. fleetpace -h lists the commands.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	redis.SetLogger(quiet{}) // errors are reported by the commands
	a := &app{in: os.Stdin, out: os.Stdout, errs: os.Stderr}
	os.Exit(a.run(ctx, os.Args[1:]))
}

// run runs one command and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(single(root, args))
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.errs)
	err := root.ExecuteContext(ctx)
	a.close()
	if err != nil && err != errMustAct && err != errSaid && err != errNone {
		fmt.Fprintln(a.errs, "fleetpace:", advised(err))
	}
	return exitCode(ctx, err)
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
