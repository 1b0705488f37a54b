// Command plan says what a fleet costs on Redis: script calls per second, cores,
// shards, memory and money, from a formula whose constants are measured.
//
//	go run ./plan -rate 5000 -processes 50 -limits 1000
//
// -calibrate measures the constants on a redis-server, -check compares the formula
// with a cluster of three masters, and -growth shows what a turn costs as a fleet grows.
// Run it with -h for what the columns mean, and
// see model.go for the formula.
//
// The program starts itself again for the keeper of its redis-servers: they end with
// it, however it ends.
package main

import (
	"context"
	"io"
	"os"

	"github.com/fleetpace/fleetpace/bench/internal/child"
	"github.com/fleetpace/fleetpace/bench/internal/command"
	"github.com/fleetpace/fleetpace/bench/internal/redisserver"
)

func main() {
	child.Main(child.Roles{redisserver.KeeperRole: redisserver.Keep})
	os.Exit(command.Run("plan", os.Args[1:], parseOptions, func(ctx context.Context, o options) error {
		return do(ctx, o, os.Stdout, os.Stderr)
	}))
}

func do(ctx context.Context, o options, stdout, stderr io.Writer) error {
	if o.calibrate {
		return runCalibration(ctx, o, stdout, stderr)
	}
	constants, err := readCalibration(o.calibration)
	if err != nil {
		return err
	}
	if o.check {
		return runCheck(ctx, o, constants, stdout, stderr)
	}
	if o.growth {
		return runGrowth(ctx, o, constants, stdout, stderr)
	}
	p, err := newPlan(o.workload, o.terms, constants)
	if err != nil {
		return err
	}
	if o.chart != "" {
		if err := drawChart(o.chart, o.workload, o.terms, constants); err != nil {
			return err
		}
	}
	if o.json {
		return printJSON(stdout, p)
	}
	return printPlan(stdout, p, constants)
}
