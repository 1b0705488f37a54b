package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
)

// settling is for how long a scenario runs before it is measured: by then each limit had its
// first refresh, which comes after 15 to 29 seconds.
const settling = 30 * time.Second

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
		if o.driver == driverScripts && (s.Waiting > 0 || s.Lease > 0) {
			if o.own {
				return errTooMuch
			}
			continue
		}
		fmt.Fprintf(stderr, "%s: %s calls/s, %v ...\n", s.Name, number(s.Rate), settling+o.seconds)
		seen, err := observe(ctx, c, s, o.driver, settling, o.seconds)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		rows = append(rows, compareWith(seen, constants)...)
	}
	if o.json {
		return printJSON(stdout, rows)
	}
	return printRows(stdout, rows)
}

// observed is what was measured of a scenario, per second.
type observed struct {
	scenario scenario // with the rate, round trip and waiting numbers that it came to
	trips    counts
	shards   []reading // without memory
	memory   float64   // of the keys
}

func observe(ctx context.Context, c *cluster, s scenario, driver string, settle, length time.Duration) (o observed, err error) {
	prefix := "fleetpace-plan-" + strings.ToLower(rand.Text())
	names, err := c.names(ctx, s.Names, "check")
	if err != nil {
		return o, err
	}
	var processes []*process
	for range s.Processes {
		p, err := newProcess(c, s, driver, prefix, names)
		if err != nil {
			return o, err
		}
		defer p.close()
		processes = append(processes, p)
	}

	working, stop := context.WithCancel(ctx)
	defer stop()
	t := traffic{scenario: s}
	var all sync.WaitGroup
	for _, p := range processes {
		all.Go(func() { t.run(working, p) })
	}
	if err := sleep(ctx, settle); err != nil {
		return o, err
	}

	from, err := c.snapshot(ctx, &t, processes)
	if err != nil {
		return o, err
	}
	if err := sleep(ctx, length); err != nil {
		return o, err
	}
	to, err := c.snapshot(ctx, &t, processes)
	if err != nil {
		return o, err
	}
	if o.memory, s.Waiting, err = c.keys(ctx, prefix); err != nil {
		return o, err
	}
	stop()
	all.Wait()
	if t.failed != nil {
		return o, t.failed
	}

	elapsed := to.at.Sub(from.at).Seconds()
	s.Rate = float64(to.done-from.done) / elapsed
	o.trips = to.trips.minus(from.trips).per(elapsed)
	s.RTT = max(time.Microsecond, time.Duration(o.trips.seconds/max(o.trips.all(), 1e-9)*float64(time.Second)))
	o.scenario = s
	for i := range to.shards {
		o.shards = append(o.shards, to.shards[i].minus(from.shards[i]).per(elapsed))
	}
	return o, nil
}

func (c counts) per(seconds float64) counts {
	return counts{c.quick / seconds, c.takes / seconds, c.claims / seconds, c.others / seconds, c.limits / seconds, c.failed / seconds, c.seconds / seconds}
}

func (r reading) per(seconds float64) reading {
	return reading{r.calls / seconds, r.micros / seconds, r.cpu / seconds, 0}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type snapshot struct {
	at     time.Time
	done   int64
	trips  counts
	shards []reading
}

func (c *cluster) snapshot(ctx context.Context, t *traffic, processes []*process) (s snapshot, err error) {
	s.at, s.done = time.Now(), t.done.Load()
	for _, p := range processes {
		s.trips = s.trips.plus(p.counter.read())
	}
	for _, client := range c.clients {
		r, err := read(ctx, client)
		if err != nil {
			return s, err
		}
		s.shards = append(s.shards, r)
	}
	return s, nil
}

// keys looks at all keys of a prefix: the memory that they take, and the numbers that wait.
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
			if strings.Contains(key, "}:waiting") {
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

// compareWith plans what was measured: with the rate, round trip and waiting numbers
// that it really had.
func compareWith(o observed, c calibration) []row {
	s := o.scenario
	// The time that calls took, less what the formula adds to a round trip.
	s.RTT = max(time.Microsecond, s.RTT-time.Duration(c.Quick.CPU.of(1)*float64(time.Microsecond)))
	plan := make(map[string]part)
	var all part
	for _, p := range demand(s.workload, c) {
		plan[p.Name] = p
		all.Trips += p.Trips
		all.Script += p.Script
		all.Cores += p.Cores
	}
	var total reading
	busiest := 0.
	for _, shard := range o.shards {
		total = total.plus(shard)
		busiest = max(busiest, shard.cpu)
	}
	names := float64(s.Names)
	perShard := float64((s.Names + masters - 1) / masters)
	perTrip := 0.
	if o.trips.quick > 0 {
		perTrip = o.trips.limits / o.trips.quick
	}
	rows := []row{
		{Figure: "calls/s", Plan: s.Rate, Measured: s.Rate},
		{Figure: "round trip, µs", Plan: s.RTT.Seconds() * 1e6, Measured: s.RTT.Seconds() * 1e6},
		{Figure: "quick calls/s", Plan: plan["quick"].Trips, Measured: o.trips.quick},
		{Figure: "limits per quick call", Plan: plan["quick"].Items, Measured: perTrip, digits: 2},
		{Figure: "takes/s", Plan: plan["refresh"].Trips + plan["lineup"].Trips, Measured: o.trips.takes, digits: 1},
		{Figure: "claims and looks/s", Plan: plan["claim"].Trips + plan["look"].Trips, Measured: o.trips.claims, digits: 1},
		{Figure: "other script calls/s", Measured: o.trips.others + o.trips.failed, digits: 1},
		{Figure: "script calls/s", Plan: all.Trips, Measured: total.calls},
		{Figure: "cores in scripts", Plan: all.Script, Measured: total.micros / 1e6, digits: 4},
		{Figure: "the same, idle between", Plan: all.Script * c.IdleScript, Measured: total.micros / 1e6, digits: 4},
		{Figure: "cores", Plan: all.Cores, Measured: total.cpu / 1e6, digits: 4},
		{Figure: "the same, idle between", Plan: all.Cores * c.IdleCPU, Measured: total.cpu / 1e6, digits: 4},
		{Figure: "cores, busiest shard", Plan: all.Cores / names * perShard, Measured: busiest / 1e6, digits: 4},
		{Figure: "memory of keys, kB", Plan: memoryOf(s.workload, c) / 1e3, Measured: o.memory / 1e3, digits: 1},
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
	quick := 0.
	before := ""
	for _, r := range rows {
		if r.Figure == "quick calls/s" {
			quick += r.Measured
		}
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
	fmt.Fprintln(w, "\ncalls/s, round trip (mean of all script calls, less one of a limit) and waiting numbers of the plan are those that were measured.")
	fmt.Fprintln(w, "Cores are planned for a busy shard; one that is idle between calls is woken for each, which takes longer.")
	if quick == 0 {
		fmt.Fprintln(w, "No quick call was seen: each call was a take, so script calls and cores say nothing of the formula.")
	}
	return nil
}
