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
	b := bench{client: client, prefix: "test", rounds: 1, round: 10 * time.Millisecond, keys: 100}
	c, err := b.calibrate(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.check())
	require.Contains(t, c.Redis, ".")
	// Known to be so on any machine.
	require.Greater(t, c.State.Table.Each, c.State.Packed.Each)
	require.Greater(t, c.State.Packed.Each, 40.0)
	require.Greater(t, c.List.Table.Each, c.List.Packed.Each)
	var out bytes.Buffer
	require.NoError(t, printCalibration(&out, c))
	t.Logf("\n%s", &out)

	left, err := client.DBSize(t.Context()).Result()
	require.NoError(t, err)
	require.Zero(t, left)
}

// In miniature: each shard is asked, and each figure stands beside the plan's. How near they
// are is a measurement: go run ./plan -check.
func TestCheckOnARealCluster(t *testing.T) {
	programtest.NeedRedis(t)
	t.Parallel()
	constants, err := readCalibration("")
	require.NoError(t, err)
	c, err := startCluster(t.Context())
	require.NoError(t, err)
	defer c.stop()
	for _, driver := range []string{driverScripts, driverReserve} {
		s := scenario{"test", workload{Rate: 200, Processes: 2, Limits: 6, Names: 3, Fill: 2 * time.Second}}
		o, err := observe(t.Context(), c, s, driver, time.Second/4, 3*time.Second)
		require.NoError(t, err, driver)
		require.Positive(t, o.scenario.Rate, driver)
		require.Len(t, o.shards, masters)
		for _, shard := range o.shards { // names are on all of them
			require.Positive(t, shard.calls, driver)
			require.Positive(t, shard.cpu, driver)
		}
		rows := compareWith(o, constants)
		require.NoError(t, printRows(io.Discard, rows))
		for _, row := range rows {
			t.Logf("%s: %s: %.4g, %.4g", driver, row.Figure, row.Plan, row.Measured)
			require.False(t, row.Figure == "script calls/s" && row.Measured <= 0, driver)
		}
	}
}
