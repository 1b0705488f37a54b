package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/vg"
)

func madeUp(contender string, ns ...float64) *record {
	r := newRecord("uncontended", contender)
	for _, v := range ns {
		r.note(nsPerOp, v)
		r.note(opsPerSec, 1e9/v)
	}
	return r
}

func TestJSONLine(t *testing.T) {
	ours, theirs := madeUp(fleetpaceName, 300, 100, 200), madeUp("redis_rate", 500)
	theirs.note("wait_ms_p99", 1.5)
	records := []*record{theirs, ours}
	compareAll(records)
	var out bytes.Buffer
	require.NoError(t, (&report{w: &out, json: true}).add(records))
	require.Equal(t, `{"case":"uncontended","contender":"redis_rate",`+
		`"ns_per_op":500,"ns_per_op_min":500,"ns_per_op_max":500,`+
		`"ops_per_second":2000000,"ops_per_second_min":2000000,"ops_per_second_max":2000000,`+
		`"redis_commands_per_op":null,"allocs_per_op":null,"ratio_to_fleetpace":2.5,`+
		`"wait_ms_p99":1.5,"wait_ms_p99_min":1.5,"wait_ms_p99_max":1.5}`+"\n"+
		`{"case":"uncontended","contender":"fleetpace",`+
		`"ns_per_op":200,"ns_per_op_min":100,"ns_per_op_max":300,`+
		`"ops_per_second":5000000,"ops_per_second_min":3333330,"ops_per_second_max":10000000,`+
		`"redis_commands_per_op":null,"allocs_per_op":null,"ratio_to_fleetpace":1}`+"\n", out.String())
}

func TestNoRatioWithoutFleetpace(t *testing.T) {
	alone := madeUp("guava", 500)
	compareAll([]*record{alone})
	text, err := json.Marshal(alone)
	require.NoError(t, err)
	require.Contains(t, string(text), `"ratio_to_fleetpace":null`)
}

func TestTable(t *testing.T) {
	ours := madeUp(fleetpaceName, 123.456, 23456.7)
	ours.note("lost_share", 0.01234)
	records := []*record{ours, madeUp("guava", 98.76)}
	compareAll(records)
	var out bytes.Buffer
	require.NoError(t, (&report{w: &out}).add(records))
	lines := strings.Split(out.String(), "\n")
	require.Equal(t, strings.Fields("case contender ns/op min max ops/s commands/op allocs/op / fleetpace lost_share"), strings.Fields(lines[0]))
	require.Equal(t, strings.Fields("uncontended fleetpace 11790 123 23457 4071342 - - 1 0.0123"), strings.Fields(lines[1]))
	require.Equal(t, strings.Fields("uncontended guava 98.8 98.8 98.8 10125557 - - 0.00838 -"), strings.Fields(lines[2]))
}

func TestCommandStats(t *testing.T) {
	all := parseCommandStats("# Commandstats\r\ncmdstat_get:calls=12,usec=3,failed_calls=0\r\n" +
		"cmdstat_eval:calls=5,usec=1\r\ncmdstat_time:calls=7,usec=1\r\ncmdstat_set:calls=2,usec=1\r\ncmdstat_client|setname:calls=2,usec=1\r\nelse\r\n")
	require.Equal(t, calls{"get": 12, "eval": 5, "time": 7, "set": 2, "client|setname": 2}, all)
	// Of the 12 GETs, 5 are those of the scripts.
	require.EqualValues(t, 7+7+5+2, throttledCalls(all))
	require.EqualValues(t, 5, scriptCalls(all))
}

func TestPicture(t *testing.T) {
	records := []*record{madeUp(fleetpaceName, 200_000), madeUp("redis_rate", 100_000), madeUp("x/time/rate", 90)}
	for _, name := range []string{"cost.svg", "cost.PNG"} {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, drawCosts(path, records))
		require.FileExists(t, path)
	}
	require.Error(t, drawCosts(filepath.Join(t.TempDir(), "cost.svg"), nil))

	names := spaced([]vg.Length{50, 0, 51, 100}, 14)
	require.Equal(t, []vg.Length{0, 100}, []vg.Length{names[1], names[3]})
	require.InDelta(t, 14, float64(names[2]-names[0]), 1e-6)
}

func TestAccuracyOfAMadeUpFleet(t *testing.T) {
	from := time.Unix(1000, 0)
	all := tale{Late: []int64{0, 1e6, 2e6}, Bare: []int64{5e5}}
	for i := range 3000 { // a second before the window, the window, and one after
		all.Calls = append(all.Calls, from.UnixNano()+int64(i-1000)*1e6)
	}
	r := newRecord("accuracy", fleetpaceName)
	noteAccuracy(r, all, from, time.Second)
	for name, want := range map[string]float64{
		opsPerSec: 1000, "refused": 0, "burst_needed": 1, "utilization": 1,
		"lateness_ms_p50": 1, "lateness_ms_p99": 1.98, "bare_ms_p99": 0.5,
	} {
		got, ok := r.get(name)
		require.True(t, ok, name)
		require.InDelta(t, want, got.median, 1e-9, name)
	}
}
