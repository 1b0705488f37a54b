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

	"github.com/fleetpace/fleetpace/bench/internal/redisserver"
)

// sized is a fleet of which each process has calls waiting at each key.
type sized struct{ processes, keys, waiting int }

// fleets grow: what a turn costs should not.
var fleets = []sized{{10, 200, 2}, {20, 500, 1}, {50, 1000, 1}}

// scenario is one call per second of each key.
func (g sized) scenario() scenario {
	return scenario{fmt.Sprintf("%d × %d × %d", g.processes, g.keys, g.waiting), workload{
		Rate: float64(g.keys), Processes: g.processes, Limits: g.keys, Names: 1, Fill: time.Second,
		Waiting: (g.processes*g.waiting)*g.keys - int(float64(g.keys)*leadSeconds),
	}}
}

// grown is what a fleet came to.
type grown struct {
	Processes    int     `json:"processes"`
	Keys         int     `json:"keys"`
	Waiting      int     `json:"waiting_per_process_and_key"`
	Turns        float64 `json:"turns_per_second"`
	Used         float64 `json:"used"` // of the turns that were possible
	CallsPerTurn float64 `json:"script_calls_per_turn"`
	AsksPerTurn  float64 `json:"asks_per_turn"` // of a limit; several share a call
	PlanPerTurn  float64 `json:"planned_script_calls_per_turn"`
	Script       float64 `json:"script_micros_per_turn"`
	CPU          float64 `json:"cpu_micros_per_turn"`
	PlanCPU      float64 `json:"planned_cpu_micros_per_turn"`
}

func runGrowth(ctx context.Context, o options, c calibration, stdout, stderr io.Writer) error {
	var all []grown
	for _, g := range fleets {
		fmt.Fprintf(stderr, "%s ...\n", g.scenario().Name)
		result, err := g.measure(ctx, c, 4*settling, o.seconds)
		if err != nil {
			return fmt.Errorf("%s: %w", g.scenario().Name, err)
		}
		all = append(all, result)
	}
	if o.json {
		return printJSON(stdout, all)
	}
	return printGrowth(stdout, all)
}

// measure lets a fleet work on a Redis of its own.
func (g sized) measure(ctx context.Context, c calibration, settle, length time.Duration) (grown, error) {
	server, err := redisserver.Start()
	if err != nil {
		return grown{}, err
	}
	defer server.Stop()
	client := server.Client()
	defer func() { _ = client.Close() }()
	s, prefix := g.scenario(), "fleetpace-plan-"+strings.ToLower(rand.Text())
	var processes []*process
	for range g.processes {
		p, err := newProcess(server.Client(), s, prefix, []string{"growth"})
		if err != nil {
			return grown{}, err
		}
		processes = append(processes, p)
		defer p.close()
	}
	t := traffic{scenario: s}
	o, err := t.observe(ctx, []*redis.Client{client}, processes, settle, length, func() error { return nil })
	if err != nil {
		return grown{}, err
	}
	turns, shard, plan := o.scenario.Rate, o.shards[0], part{}
	for _, p := range demand(o.scenario.workload, c) {
		plan.Trips, plan.Cores = plan.Trips+p.Trips, plan.Cores+p.Cores
	}
	return grown{
		g.processes, g.keys, g.waiting, turns, turns / float64(g.keys), shard["calls"] / turns, o.trips["limits"] / turns, plan.Trips / turns,
		shard["micros"] / turns, shard["cpu"] / turns, 1e6 * plan.Cores / turns,
	}, nil
}

func printGrowth(w io.Writer, all []grown) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "processes × keys × waiting\tturns/s\tused\tscript calls per turn\tplanned\tasks per turn\tµs in scripts per turn\tµs of Redis\tplanned\t")
	for _, g := range all {
		fmt.Fprintf(table, "%d × %d × %d\t%.0f\t%.3f\t%.2f\t%.2f\t%.2f\t%.0f\t%.0f\t%.0f\t\n", g.Processes, g.Keys, g.Waiting, g.Turns, g.Used,
			g.CallsPerTurn, g.PlanPerTurn, g.AsksPerTurn, g.Script, g.CPU, g.PlanCPU)
	}
	return table.Flush()
}
