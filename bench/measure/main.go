// Command measure takes all of the project's measurements, one after the other, and
// reports them. It judges none: -h explains.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"

	"github.com/fleetpace/fleetpace/bench/internal/command"
)

const usage = `What this project measures, in one run of less than ten minutes: nothing is judged.

  go run ./measure                   all, in the directory bench; needs a redis-server in PATH
  go run ./measure -only 'fleet|example'
  go run ./measure -o figures.jsonl

Measurements:
  speed     a call beside other limiters and floors (compare)
  fleet     asynq fleets beside what people do today (fleet)
  example   the examples, as a newcomer runs them
  fault     what breaks on a bad day, a line per fault (TestFault of integration)

It prints a JSON line for each figure line of these programs as soon as one has ended, and
a table in the end. Each line has the field "measure", and beside its own figures what a
process suffered that only slept while its program ran: bare_longest_ms, how late it woke
at worst, and bare_late_share, the part of the time that it lost to waking more than 5 ms
too late. Where these are large, the machine was busy, and the figures are its figures.
A program that left with an error after its figures has "exit_status" in its lines.

The exit code is 0 whatever the figures are, and 1 when a program could not run.

Flags:
`

// longest is how long all of it may take.
const longest = 10 * time.Minute

type options struct {
	only *regexp.Regexp
	out  string
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	var only string
	fs := command.NewFlags("measure", usage, stderr)
	fs.StringVar(&only, "only", "", "take only the measurements whose names, such as \"speed memory\", match this `pattern`")
	fs.StringVar(&o.out, "o", "", "write the JSON lines to this `file`, too")
	if err := command.Parse(fs, args); err != nil {
		return o, err
	}
	var err error
	if o.only, err = regexp.Compile(only); err != nil {
		return o, fmt.Errorf("-only: %w", err)
	}
	return o, nil
}

func main() {
	os.Exit(command.Run("measure", os.Args[1:], parseOptions, func(ctx context.Context, o options) error {
		return measure(ctx, o, os.Stdout, os.Stderr)
	}))
}

func measure(ctx context.Context, o options, stdout, stderr io.Writer) error {
	if _, err := os.Stat("measure/main.go"); err != nil {
		return fmt.Errorf("run it in the directory bench of the project: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, longest, fmt.Errorf("%v are over", longest))
	defer cancel()
	lines := stdout
	if o.out != "" {
		file, err := os.Create(o.out)
		if err != nil {
			return fmt.Errorf("-o: %w", err)
		}
		defer file.Close()
		lines = io.MultiWriter(stdout, file)
	}
	programs, err := os.MkdirTemp("", "fleetpace-measure-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(programs)
	return take(ctx, chosen(o.only), programs, lines, stdout, stderr)
}

// take writes the lines of each run when it has ended, and then the table. What can not
// run keeps nothing else from running.
func take(ctx context.Context, runs []run, programs string, lines, table, stderr io.Writer) error {
	var all []line
	var failed []error
	began, left := time.Now(), time.Duration(0)
	for _, r := range runs {
		left += r.usual
	}
	for i, r := range runs {
		if ctx.Err() != nil {
			return errors.Join(append(failed, fmt.Errorf("%s: not begun: %w", r.name(), context.Cause(ctx)))...)
		}
		fmt.Fprintf(stderr, "[%d/%d] %s takes about %.0f s; %.0f s are over, about %.0f s are left\n",
			i+1, len(runs), r.name(), r.usual.Seconds(), time.Since(began).Seconds(), left.Seconds())
		left -= r.usual
		got, err := r.take(ctx, programs)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", r.name(), err))
		}
		for _, l := range got {
			if _, err := lines.Write(l.json()); err != nil {
				return err
			}
		}
		all = append(all, got...)
	}
	return errors.Join(append(failed, printTable(table, all))...)
}
