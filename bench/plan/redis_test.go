package main

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/bench/internal/programtest"
)

// In miniature: what is measured is not accurate, but complete, and nothing is left.
func TestCalibrationOnARealRedis(t *testing.T) {
	programtest.NeedRedis(t)
	t.Parallel()
	client, stop, err := calibrationServer(t.Context(), "")
	require.NoError(t, err)
	defer stop()
	b := bench{client: client, prefix: "test", rounds: 1, round: 10 * time.Millisecond}
	c, err := b.calibrate(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.check())
	require.Contains(t, c.Redis, ".")
	// Known to be so on any machine.
	require.Greater(t, c.Places.Table.Each, c.Places.Packed.Each)
	require.Greater(t, c.Places.Packed.Each, 20.0)
	require.Greater(t, c.Lined, c.State)
	var out bytes.Buffer
	require.NoError(t, printCalibration(&out, c))
	t.Logf("\n%s", &out)

	left, err := client.DBSize(t.Context()).Result()
	require.NoError(t, err)
	require.Zero(t, left)
}

// In miniature: each figure stands beside the plan's. How near they are is a measurement:
// go run ./plan -check.
func TestCheckOnARealCluster(t *testing.T) {
	programtest.NeedRedis(t)
	t.Parallel()
	constants, err := readCalibration("")
	require.NoError(t, err)
	c, err := startCluster(t.Context())
	require.NoError(t, err)
	defer c.stop()
	for _, s := range []scenario{
		{"common", workload{Rate: 200, Processes: 2, Limits: 6, Names: 3, Fill: 2 * time.Second}},
		{"waiting", workload{Rate: 30, Processes: 2, Limits: 6, Names: 3, Fill: time.Second / 5, Waiting: 60}},
	} {
		rows, err := checkOn(t.Context(), c, s, constants, time.Second/4, 3*time.Second)
		require.NoError(t, err, s.Name)
		require.NoError(t, printRows(io.Discard, rows))
		seen := map[string]float64{}
		for _, row := range rows {
			t.Logf("%s: %s: %.4g, %.4g", s.Name, row.Figure, row.Plan, row.Measured)
			seen[row.Figure] = row.Measured
		}
		for _, figure := range []string{"calls/s", "asks/s", "heartbeats/s", "script calls/s", "cores", "memory of keys, kB"} {
			require.Positive(t, seen[figure], "%s: %s", s.Name, figure)
		}
		require.Equal(t, s.Waiting > 0, seen["calls that wait"] > 0, s.Name)
	}
}

// In miniature.
func TestGrowthOnARealRedis(t *testing.T) {
	programtest.NeedRedis(t)
	t.Parallel()
	constants, err := readCalibration("")
	require.NoError(t, err)
	g, err := sized{2, 20, 2}.measure(t.Context(), constants, time.Second, 3*time.Second)
	require.NoError(t, err)
	require.Positive(t, g.Turns)
	require.Positive(t, g.Script)
	require.Greater(t, g.CallsPerTurn, 0.1)
	require.NoError(t, printGrowth(io.Discard, []grown{g}))
}
