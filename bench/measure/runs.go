package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// run is one program that prints JSON lines.
type run struct {
	measure string
	what    string // the rest of its name
	program string
	dir     string // where it runs
	args    []string
	usual   time.Duration // how long it takes
	prefix  string        // of the lines that hold JSON, before it; empty: they begin with it
}

func (r run) name() string { return r.measure + " " + r.what }

// runs are all that there are, in their order.
func runs() []run {
	var all []run
	for _, c := range []string{"uncontended", "parallel-64", "parallel-4096", "many-limits", "rtt-5ms",
		"lease-100k", "lease-steady", "lease-bursty", "memory", "accuracy"} {
		all = append(all, run{"speed", c, "compare", ".", []string{"-json", "-case", c}, 7 * time.Second, ""})
	}
	for _, s := range []string{"one", "mixed", "tenants"} {
		all = append(all, run{"fleet", s, "fleet", ".", []string{"-json", "-scenario", s, "-seconds", "8"}, 45 * time.Second, ""})
	}
	return append(all,
		run{"example", "crawler", "crawler", "..", []string{"-json"}, 18 * time.Second, ""},
		run{"example", "batch", "batch", "..", []string{"-json"}, 12 * time.Second, ""},
		run{"example", "batch -api llm", "batch", "..", []string{"-json", "-api", "llm"}, 40 * time.Second, ""},
		run{"fault", "table", "integration.test", "../integration",
			[]string{"-test.run", "^TestFault$", "-test.v", "-test.count", "1"}, 150 * time.Second, "FAULT "},
	)
}

func chosen(only *regexp.Regexp) []run {
	var some []run
	for _, r := range runs() {
		if only.MatchString(r.name()) {
			some = append(some, r)
		}
	}
	return some
}

// build makes the programs before anything is measured, in a directory of their own.
func build(ctx context.Context, stderr io.Writer) (dir string, remove func(), err error) {
	if dir, err = os.MkdirTemp("", "fleetpace-measure-"); err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	for _, b := range []struct {
		in   string
		args []string
	}{
		{".", []string{"build", "-o", dir + "/", "./compare", "./fleet"}},
		{"..", []string{"build", "-o", dir + "/", "./examples/crawler", "./examples/batch"}},
		{"..", []string{"test", "-c", "-o", filepath.Join(dir, "integration.test"), "./integration"}},
	} {
		fmt.Fprintln(stderr, "go", strings.Join(b.args, " "))
		cmd := exec.CommandContext(ctx, "go", b.args...) //nolint:gosec // its own arguments
		cmd.Dir, cmd.Stdout, cmd.Stderr = b.in, stderr, stderr
		if err := cmd.Run(); err != nil {
			remove()
			return "", nil, fmt.Errorf("go %s: %w", strings.Join(b.args, " "), err)
		}
	}
	return dir, remove, nil
}
