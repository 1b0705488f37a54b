package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/fleetpace/fleetpace/internal/bare"
)

// end is what of a program's words stands in its error.
func end(said []byte) []byte {
	const most = 1000
	said = bytes.TrimSpace(said)
	return said[max(0, len(said)-most):]
}

var errNothing = errors.New("it ended well")

// patience is how much longer than usual a program may take, and how long to end.
const patience, ending = time.Minute, 10 * time.Second

// take builds the program, runs it and sleeps beside it. It is an error when there is no figure; what
// else a program ends with is for its lines to say.
func (r run) take(ctx context.Context, programs string) ([]line, error) {
	if err := r.build(ctx, programs); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*r.usual+patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(programs, r.program), r.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.dir, &stdout, &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it cleans up
	cmd.WaitDelay = ending

	sleeping, wake := context.WithCancel(ctx)
	sleeper := bare.Watch(sleeping)
	failed := cmd.Run()
	wake()
	all, err := parse(stdout.Bytes(), r.prefix)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("it printed no figure: %w: %s", cmp.Or(failed, errNothing), end(append(stdout.Bytes(), stderr.Bytes()...)))
	}
	for _, l := range all {
		l["measure"] = r.measure
		if r.measure == "example" {
			l["example"] = r.what
		}
		l.beside(sleeper.Figures())
		if failed != nil {
			l["exit_status"] = cmd.ProcessState.ExitCode()
		}
	}
	return all, nil
}
