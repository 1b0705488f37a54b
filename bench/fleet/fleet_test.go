package main

import (
	"bytes"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/bench/internal/programtest"
)

// lines runs the program and returns its JSON lines.
func lines(t *testing.T, args ...string) []map[string]any {
	t.Helper()
	programtest.NeedRedis(t)
	cmd := programtest.Command(t, append([]string{"-json", "-processes", "2"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), "%s", &stderr)
	t.Logf("\n%s%s", &stderr, &stdout)
	require.NotContains(t, stderr.String(), "DATA RACE")

	var all []map[string]any
	for decoder := json.NewDecoder(&stdout); decoder.More(); {
		var line map[string]any
		require.NoError(t, decoder.Decode(&line))
		all = append(all, line)
	}
	return all
}

var fields = []string{
	"scenario", "contender", "limit", "tasks", "done", "seconds", "utilization", "refused",
	"entries_per_task", "lateness_ms_p50", "lateness_ms_p99", "bare_ms_p99",
}

// checkLine checks what holds on any machine, however busy.
func checkLine(t *testing.T, line map[string]any) {
	t.Helper()
	var have []string
	for field := range line {
		have = append(have, field)
	}
	require.ElementsMatch(t, fields, have)
	for _, field := range fields[3:] {
		require.IsType(t, 0.0, line[field], field)
	}
	require.Positive(t, line["done"])
	require.LessOrEqual(t, line["done"], line["tasks"])
	require.Positive(t, line["utilization"])
	require.LessOrEqual(t, line["utilization"], 1.0)
	require.GreaterOrEqual(t, line["entries_per_task"], 1.0)
	require.GreaterOrEqual(t, line["lateness_ms_p99"], line["lateness_ms_p50"])
}

func TestScenarioOneInMiniature(t *testing.T) {
	t.Parallel() // mostly waiting
	const rate = 40
	all := lines(t, "-scenario", "one", "-seconds", "2", "-rate", strconv.Itoa(rate), "-tasks", "150")
	var ran []string
	for _, line := range all {
		checkLine(t, line)
		ran = append(ran, line["contender"].(string))
		require.Equal(t, "one", line["scenario"])
		require.InDelta(t, 2, line["seconds"], 1e-9)
		most := float64(limit{Rate: rate, Burst: 10}.most(2 * time.Second))
		require.InDelta(t, line["done"].(float64)/most, line["utilization"], 1e-4)
	}
	require.Equal(t, names(), ran)
}

func TestMixedHasALinePerLimit(t *testing.T) {
	t.Parallel() // mostly waiting
	all := lines(t, "-scenario", "mixed", "-seconds", "3", "-contender", "sleep-in-handler")
	require.Len(t, all, 2)
	for i, name := range []string{"slow", "fast"} {
		checkLine(t, all[i])
		require.Equal(t, name, all[i]["limit"])
	}
}

func TestAllDoneEndsTheRun(t *testing.T) {
	t.Parallel() // mostly waiting
	all := lines(t, "-scenario", "one", "-rate", "8", "-tasks", "16", "-seconds", "60", "-contender", "sleep-in-handler")
	require.Len(t, all, 1)
	checkLine(t, all[0])
	require.Equal(t, 16.0, all[0]["done"])
	require.Less(t, all[0]["seconds"], 60.0)
}
