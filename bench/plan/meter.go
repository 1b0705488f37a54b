package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// reading is what a server says of its work since it started.
type reading struct {
	calls  float64 // of scripts
	micros float64 // in them
	cpu    float64 // micros of the thread that carries out commands
	memory float64 // bytes
}

func (r reading) minus(before reading) reading {
	return reading{r.calls - before.calls, r.micros - before.micros, r.cpu - before.cpu, r.memory - before.memory}
}

func (r reading) plus(other reading) reading {
	return reading{r.calls + other.calls, r.micros + other.micros, r.cpu + other.cpu, r.memory + other.memory}
}

func read(ctx context.Context, client *redis.Client) (reading, error) {
	info, err := infoOf(ctx, client)
	if err != nil {
		return reading{}, err
	}
	var r reading
	for _, command := range []string{"eval", "evalsha"} {
		calls, micros, err := commandStats(info["cmdstat_"+command])
		if err != nil {
			return r, fmt.Errorf("INFO commandstats of %s: %w", command, err)
		}
		r.calls += calls
		r.micros += micros
	}
	for _, f := range []struct {
		to        *float64
		factor    float64 // to micros and bytes
		of, older string  // older: of a Redis before 7.0
	}{
		{&r.cpu, 1e6, "used_cpu_user_main_thread", "used_cpu_user"},
		{&r.cpu, 1e6, "used_cpu_sys_main_thread", "used_cpu_sys"},
		{&r.memory, 1, "used_memory", ""},
	} {
		text, ok := info[f.of]
		if !ok {
			text = info[f.older]
		}
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return r, fmt.Errorf("INFO: %s is %q: want a number", f.of, text)
		}
		*f.to += f.factor * x
	}
	return r, nil
}

// infoOf is INFO ALL, by name.
func infoOf(ctx context.Context, client *redis.Client) (map[string]string, error) {
	text, err := client.Info(ctx, "all").Result()
	if err != nil {
		return nil, err
	}
	info := make(map[string]string)
	for line := range strings.SplitSeq(text, "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			info[name] = value
		}
	}
	return info, nil
}

// commandStats reads "calls=1,usec=2,...". Of a command that nobody used there is none.
func commandStats(text string) (calls, micros float64, err error) {
	if text == "" {
		return 0, 0, nil
	}
	for field := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(field, "=")
		switch name {
		case "calls":
			calls, err = strconv.ParseFloat(value, 64)
		case "usec":
			micros, err = strconv.ParseFloat(value, 64)
		}
		if err != nil {
			return 0, 0, err
		}
	}
	return calls, micros, nil
}
