package main

import (
	"context"
	"fmt"
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
	source  string // its package, from there
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
		all = append(all, run{"speed", c, "compare", ".", "./compare", []string{"-json", "-case", c}, 7 * time.Second, ""})
	}
	for _, s := range []string{"one", "mixed", "tenants"} {
		all = append(all, run{"fleet", s, "fleet", ".", "./fleet", []string{"-json", "-scenario", s, "-seconds", "8"}, 45 * time.Second, ""})
	}
	return append(all,
		run{"example", "crawler", "crawler", "..", "./examples/crawler", []string{"-json"}, 18 * time.Second, ""},
		run{"example", "batch", "batch", "..", "./examples/batch", []string{"-json"}, 12 * time.Second, ""},
		run{"example", "batch -api llm", "batch", "..", "./examples/batch", []string{"-json", "-api", "llm"}, 40 * time.Second, ""},
		run{"fault", "table", "integration.test", "../integration", ".",
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

// build makes the program, where an earlier run has not, before anything is measured.
func (r run) build(ctx context.Context, programs string) error {
	path := filepath.Join(programs, r.program)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	args := []string{"build", "-o", path, r.source}
	if strings.HasSuffix(r.program, ".test") {
		args = []string{"test", "-c", "-o", path, r.source}
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = r.dir
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, end(said))
	}
	return nil
}
