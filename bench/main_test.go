package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/bench/cost"
	"github.com/fleetpace/fleetpace/bench/fleet"
	"github.com/fleetpace/fleetpace/bench/internal/redisserver"
)

// asProgram is the environment variable that makes the test binary the program itself.
const asProgram = "FLEETPACE_BENCH_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	_ = os.Setenv(asProgram, "1") // for the processes that tests start
	os.Exit(m.Run())
}

// bench runs the program, and returns what it printed.
func bench(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := redisserver.Binary(); err != nil {
		require.NotContains(t, os.Getenv("FLEETPACE_REQUIRE"), "redis", "FLEETPACE_REQUIRE: %v", err)
		t.Skip(err)
	}
	command := exec.CommandContext(t.Context(), os.Args[0], args...) //nolint:gosec // the test binary
	command.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	require.NoError(t, command.Run(), stderr.String())
	return stdout.String()
}

func lines[F any](t *testing.T, text string) (all []F) {
	t.Helper()
	for decoder := json.NewDecoder(strings.NewReader(text)); ; {
		var f F
		err := decoder.Decode(&f)
		if err == io.EOF {
			return all
		}
		require.NoError(t, err)
		all = append(all, f)
	}
}

// Each case has every contender that can take part, and each of their figures has a value.
func TestCost(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "cost.svg")
	all := lines[cost.Figure](t, bench(t, "cost", "-json", "-rounds", "1", "-slice", "10ms", "-chart", picture))
	perCase := map[string]int{}
	for _, f := range all {
		perCase[f.Case]++
		require.Positive(t, f.Nanos, "%+v", f)
		require.Positive(t, f.Ratio, "%+v", f)
		require.Equal(t, f.Contender != "x/time/rate", f.Commands > 0, "%+v", f)
		if f.Contender == "fleetpace" && (f.Case == "waiting" || f.Case == "leaving") {
			require.InDelta(t, 1, f.Commands, 0.2, "each call asks and leaves by itself: %+v", f)
		}
	}
	require.Equal(t, map[string]int{"1 caller": 6, "keys one by one": 4, "64 callers": 6, "4,096 callers": 6, "100 keys": 4, "10,000 keys": 4, "16 processes": 5,
		"waiting": 5, "leaving": 5}, perCase)
	svg, err := os.ReadFile(picture)
	require.NoError(t, err)
	for _, name := range []string{"fleetpace", "fleetpace, prefetch", "redis_rate", "redis_rate, full duplex", "floor", "x/time/rate"} {
		require.Contains(t, string(svg), ">"+name+"<")
	}
}

// Fleetpace from another program takes part (here it is the same program), and so do busy processes.
func TestCostBefore(t *testing.T) {
	all := lines[cost.Figure](t, bench(t, "cost", "-json", "-rounds", "1", "-slice", "10ms", "-only", "1 caller,fleetpace", "-before", os.Args[0], "-busy"))
	var names []string
	for _, f := range all {
		names = append(names, f.Contender)
	}
	require.Equal(t, []string{"fleetpace", "fleetpace, before", "fleetpace, prefetch", "fleetpace, prefetch, before"}, names)
}

// Tasks are done, and their counts add up.
func TestFleet(t *testing.T) {
	args := []string{"fleet", "-json", "-seconds", "2s", "-processes", "2", "-contender", "fleetpace-worker"}
	for scenario, lineCount := range map[string]int{"one": 1, "mixed": 2} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			all := lines[fleet.Figure](t, bench(t, append(args, "-scenario", scenario, "-tasks", "100")...))
			require.Len(t, all, lineCount)
			require.Positive(t, all[0].Done)
			require.GreaterOrEqual(t, all[0].Tasks, all[0].Done)
			require.LessOrEqual(t, all[0].Used, 1.0)
		})
	}
}

func TestHTTP(t *testing.T) {
	text := bench(t, "http", "-rounds", "1", "-length", "100ms", "-callers", "50")
	require.Contains(t, text, "net/http, redis_rate")
	require.Contains(t, text, "50 callers that wait at a limit of 2,000/s")
}

func TestGrowth(t *testing.T) {
	text := bench(t, "growth", "-only", "2x5x2", "-settle", "1s", "-length", "1s")
	require.Contains(t, text, "2 × 5 × 2")
}

// A wrong command line gets an error that says what to write.
func TestCommandLine(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer func() { _ = null.Close() }()
	for _, c := range []struct {
		args []string
		code int
	}{
		{nil, 2}, {[]string{"-h"}, 2}, {[]string{"speed"}, 2}, {[]string{"cost", "-h"}, 0}, {[]string{"cost", "-rounds", "0"}, 1}, {[]string{"cost", "more"}, 1},
		{[]string{"fleet", "-h"}, 0}, {[]string{"fleet", "-scenario", "none"}, 1}, {[]string{"fleet", "-contender", "none"}, 1}, {[]string{"fleet", "-handlers", "0"}, 1},
		{[]string{"fleet", "-scenario", "mixed", "-contender", "bullmq"}, 1}, {[]string{"http", "-h"}, 0}, {[]string{"http", "-length", "0s"}, 1},
		{[]string{"growth", "-h"}, 0}, {[]string{"growth", "-only", "many"}, 1},
	} {
		require.Equal(t, c.code, run(c.args, io.Discard, null), "%q", c.args)
	}
}
