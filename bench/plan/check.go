package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
)

// settling is for how long a scenario runs before it is measured.
const settling = 5 * time.Second

// row is one figure, planned and measured.
type row struct {
	Scenario string  `json:"scenario"`
	Figure   string  `json:"figure"`
	Plan     float64 `json:"plan"`
	Measured float64 `json:"measured"`
	Ratio    float64 `json:"measured_per_plan"` // 0: nothing was planned
	digits   int
}

func runCheck(ctx context.Context, o options, constants calibration, stdout, stderr io.Writer) error {
	all := scenarios
	if o.own {
		all = []scenario{{"your own", o.workload}}
	}
	fmt.Fprintln(stderr, "starting a cluster of three masters ...")
	c, err := startCluster(ctx)
	if err != nil {
		return err
	}
	defer c.stop()

	var rows []row
	for _, s := range all {
		fmt.Fprintf(stderr, "%s: %s calls/s, %v ...\n", s.Name, number(s.Rate), settling+o.seconds)
		seen, err := checkOn(ctx, c, s, constants, settling, o.seconds)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		rows = append(rows, seen...)
	}
	if o.json {
		return printJSON(stdout, rows)
	}
	return printRows(stdout, rows)
}

// checkOn carries a scenario out on a cluster, and plans it.
func checkOn(ctx context.Context, c *cluster, s scenario, constants calibration, settle, length time.Duration) ([]row, error) {
	prefix := "fleetpace-plan-" + strings.ToLower(rand.Text())
	names, err := c.names(ctx, s.Names, "check")
	if err != nil {
		return nil, err
	}
	var processes []*process
	for range s.Processes {
		p, err := newProcess(c.client(), s, prefix, names)
		if err != nil {
			return nil, err
		}
		defer p.close()
		processes = append(processes, p)
	}
	t := traffic{scenario: s}
	var memory float64
	var waiting int
	o, err := t.observe(ctx, c.clients, processes, settle, length, func() (err error) {
		memory, waiting, err = c.keys(ctx, prefix)
		return err
	})
	if err != nil {
		return nil, err
	}
	o.scenario.Waiting = waiting
	return compareWith(o, memory, constants), nil
}

// keys looks at all keys of a prefix: the memory that they take, and the calls that wait.
func (c *cluster) keys(ctx context.Context, prefix string) (bytes float64, waiting int, err error) {
	for _, client := range c.clients {
		scan := client.Scan(ctx, 0, prefix+":*", 1000).Iterator()
		for scan.Next(ctx) {
			key := scan.Val()
			used, err := client.MemoryUsage(ctx, key, 0).Result()
			if err == redis.Nil { //nolint:errorlint // go-redis returns it as it is
				continue // it expired
			}
			if err != nil {
				return 0, 0, err
			}
			bytes += float64(used)
			if strings.Contains(key, "}:p-places") {
				n, err := client.ZCard(ctx, key).Result()
				if err != nil {
					return 0, 0, err
				}
				waiting += int(n)
			}
		}
		if err := scan.Err(); err != nil {
			return 0, 0, err
		}
	}
	return bytes, waiting, nil
}

// compareWith plans what was measured: with the rate, round trip and waiting calls that it
// really had.
func compareWith(o observed, memory float64, c calibration) []row {
	s := o.scenario
	// The time that calls took, less what the formula adds to a round trip.
	s.RTT = max(time.Microsecond, s.RTT-time.Duration(c.Common.CPU.of(1)*float64(time.Microsecond)))
	parts := demand(s.workload, c)
	var all part
	for _, p := range parts {
		all.Trips += p.Trips
		all.Script += p.Script
		all.Cores += p.Cores
	}
	total, busiest := figures{}, 0.
	for _, shard := range o.shards {
		total = total.plus(shard, 1e-6)
		busiest = max(busiest, shard["cpu"]/1e6)
	}
	perShard := float64((s.Names+masters-1)/masters) / float64(s.Names)
	rows := []row{
		{Figure: "calls/s", Plan: s.Rate, Measured: s.Rate},
		{Figure: "calls that wait", Plan: float64(s.Waiting), Measured: float64(s.Waiting)},
		{Figure: "round trip, µs", Plan: s.RTT.Seconds() * 1e6, Measured: s.RTT.Seconds() * 1e6},
		{Figure: "asks/s", Plan: parts[0].Trips + parts[1].Trips, Measured: o.trips["ask"]},
		{Figure: "heartbeats/s", Plan: parts[2].Trips, Measured: o.trips["beat"], digits: 1},
		{Figure: "other script calls/s", Measured: o.trips["other"] + o.trips["failed"], digits: 1},
		{Figure: "script calls/s", Plan: all.Trips, Measured: total["calls"] * 1e6},
		{Figure: "cores in scripts", Plan: all.Script, Measured: total["micros"], digits: 4},
		{Figure: "the same, idle between", Plan: all.Script * c.IdleScript, Measured: total["micros"], digits: 4},
		{Figure: "cores", Plan: all.Cores, Measured: total["cpu"], digits: 4},
		{Figure: "the same, idle between", Plan: all.Cores * c.IdleCPU, Measured: total["cpu"], digits: 4},
		{Figure: "cores, busiest shard", Plan: all.Cores * perShard, Measured: busiest, digits: 4},
		{Figure: "memory of keys, kB", Plan: memoryOf(s.workload, c) / 1e3, Measured: memory / 1e3, digits: 1},
	}
	for i := range rows {
		rows[i].Scenario = s.Name
		if rows[i].Plan > 0 {
			rows[i].Ratio = rows[i].Measured / rows[i].Plan
		}
	}
	return rows
}

func printRows(w io.Writer, rows []row) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "scenario\tfigure\tplan\tmeasured\tmeasured / plan\t")
	before := ""
	for _, r := range rows {
		if r.Plan == 0 && r.Measured == 0 {
			continue
		}
		name := r.Scenario
		if name == before {
			name = ""
		}
		before = r.Scenario
		ratio := "-"
		if r.Ratio > 0 {
			ratio = fmt.Sprintf("%.2f", r.Ratio)
		}
		fmt.Fprintf(table, "%s\t%s\t%.*f\t%.*f\t%s\t\n", name, r.Figure, r.digits, r.Plan, r.digits, r.Measured, ratio)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(w, "\ncalls/s, calls that wait and the round trip (mean of all script calls, less one of a limit) of the plan are those that were measured.\n"+
		"Cores are planned for a busy shard; one that is idle between calls is woken for each, which takes longer.\n")
	return err
}
