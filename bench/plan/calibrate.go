package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/bench/internal/redisserver"
)

// bench measures on one server.
type bench struct {
	client *redis.Client
	prefix string
	rounds int
	round  time.Duration // of calls of one kind
}

const workers = 8 // connections that call at the same time

func runCalibration(ctx context.Context, o options, stdout, stderr io.Writer) error {
	client, stop, err := calibrationServer(ctx, o.redisURL)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Fprintln(stderr, "measuring, about 20 s ...")
	b := bench{client: client, prefix: "fleetpace-plan-" + strings.ToLower(rand.Text()), rounds: 7, round: 100 * time.Millisecond}
	c, err := b.calibrate(ctx)
	if err != nil {
		return err
	}
	if o.redisURL != "" {
		c.CPU = "an unknown CPU" // it may be another machine's
	}
	if o.write != "" {
		data, err := json.MarshalIndent(c, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.write, append(data, '\n'), 0o644); err != nil {
			return fmt.Errorf("-write: %w", err)
		}
	}
	if o.json {
		return printJSON(stdout, c)
	}
	return printCalibration(stdout, c)
}

func calibrationServer(ctx context.Context, url string) (*redis.Client, func(), error) {
	if url == "" {
		s, err := redisserver.Start()
		if err != nil {
			return nil, nil, err
		}
		client := s.Client()
		return client, func() { _ = client.Close(); s.Stop() }, nil
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, nil, fmt.Errorf("-redis: %w", err)
	}
	client := redis.NewClient(options)
	if err := client.Ping(ctx).Err(); err != nil {
		_ = client.Close()
		return nil, nil, fmt.Errorf("-redis: it does not answer: %w", err)
	}
	return client, func() { _ = client.Close() }, nil
}

func (b *bench) calibrate(ctx context.Context) (c calibration, err error) {
	// What is left on somebody's server goes, also after Ctrl-C.
	defer func() {
		if left := b.remove(context.WithoutCancel(ctx)); err == nil {
			err = left
		}
	}()
	info, err := infoOf(ctx, b.client)
	if err != nil {
		return c, err
	}
	c = calibration{Measured: time.Now().UTC().Format(time.DateOnly), Redis: version(info), CPU: processor()}
	// Memory first: the server is empty, and has freed nothing yet.
	if err := b.memory(ctx, &c); err != nil {
		return c, err
	}
	if err := b.verbs(ctx, &c); err != nil {
		return c, err
	}
	if err := c.check(); err != nil {
		return c, fmt.Errorf("the machine was too busy to measure: %w", err)
	}
	return c, nil
}

func version(info map[string]string) string {
	if v := info["valkey_version"]; v != "" {
		return "Valkey " + v
	}
	return "Redis " + info["redis_version"]
}

// processor is the kind of CPU of this machine, where that can be told.
func processor() string {
	kind := runtime.GOARCH
	if file, err := os.Open("/proc/cpuinfo"); err == nil {
		defer file.Close()
		for lines := bufio.NewScanner(file); lines.Scan(); {
			if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
				kind = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d cores", kind, runtime.NumCPU())
}

// remove deletes all keys of the bench.
func (b *bench) remove(ctx context.Context) error {
	scan := b.client.Scan(ctx, 0, b.prefix+":*", 1000).Iterator()
	for scan.Next(ctx) {
		if err := b.client.Del(ctx, scan.Val()).Err(); err != nil {
			return err
		}
	}
	return scan.Err()
}

func printCalibration(w io.Writer, c calibration) error {
	fmt.Fprintf(w, "%s on %s, %s\n\n", c.Redis, c.CPU, c.Measured)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "micros\tscript\t+ per item\tall\t+ per item\t")
	for _, v := range []struct {
		name string
		verb
	}{{"common, per limit", c.Common}, {"waiting, per call", c.Waiting}, {"beat, per process", c.Beat}} {
		fmt.Fprintf(table, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t\n", v.name, v.Script.Call, v.Script.Each, v.CPU.Call, v.CPU.Each)
	}
	fmt.Fprintf(table, "common of 1, idle between\t× %.2f\t\t× %.2f\t\t\n", c.IdleScript, c.IdleCPU)
	if err := table.Flush(); err != nil {
		return err
	}
	table = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\nbytes\tsmall\t+ per item\tup to\tlarge\t+ per item\t")
	for _, s := range []struct {
		name string
		size
	}{{"places, by calls", c.Places}, {"name, by processes", c.Name}} {
		fmt.Fprintf(table, "%s\t%.0f\t%.1f\t%.0f\t%.0f\t%.1f\t\n", s.name, s.Packed.Call, s.Packed.Each, s.Most, s.Table.Call, s.Table.Each)
	}
	fmt.Fprintf(table, "limit\t%.0f\t\t\t\t\t\nlimit where calls wait\t%.0f\t\t\t\t\t\nempty server\t%.0f\t\t\t\t\t\n", c.State, c.Lined, c.ServerBytes)
	return table.Flush()
}
