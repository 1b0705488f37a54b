package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/lua"
)

// figures are sums of what was counted, by name.
type figures map[string]float64

// plus is the sum with others, each times a factor.
func (f figures) plus(others figures, by float64) figures {
	sum := figures{}
	for name, x := range f {
		sum[name] += x
	}
	for name, x := range others {
		sum[name] += by * x
	}
	return sum
}

// per is each figure divided by seconds, or by something else.
func (f figures) per(x float64) figures { return figures{}.plus(f, 1/x) }

// read is what a server says of its work since it started: script calls, micros in them,
// cpu: micros of the thread that carries out commands, and memory in bytes.
func read(ctx context.Context, client *redis.Client) (figures, error) {
	info, err := infoOf(ctx, client)
	if err != nil {
		return nil, err
	}
	f := figures{}
	for _, command := range []string{"eval", "evalsha"} { // "calls=1,usec=2,..."; none if nobody used it
		for field := range strings.SplitSeq(info["cmdstat_"+command], ",") {
			name, value, _ := strings.Cut(field, "=")
			to := map[string]string{"calls": "calls", "usec": "micros"}[name]
			if to == "" {
				continue
			}
			x, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return nil, fmt.Errorf("INFO commandstats of %s: %w", command, err)
			}
			f[to] += x
		}
	}
	for _, of := range []struct {
		to     string
		factor float64   // to micros and bytes
		names  [2]string // the second one of a Redis before 7.0
	}{
		{"cpu", 1e6, [2]string{"used_cpu_user_main_thread", "used_cpu_user"}},
		{"cpu", 1e6, [2]string{"used_cpu_sys_main_thread", "used_cpu_sys"}},
		{"memory", 1, [2]string{"used_memory"}},
	} {
		text, ok := info[of.names[0]]
		if !ok {
			text = info[of.names[1]]
		}
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("INFO: %s is %q: want a number", of.names[0], text)
		}
		f[of.to] += of.factor * x
	}
	return f, nil
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

// counter is a hook of a client that counts script calls: ask, beat, other, failed; the
// limits of asks; and the seconds that those without an error took, as their callers saw it.
type counter struct {
	mu  sync.Mutex
	sum figures
}

func (c *counter) read() figures {
	c.mu.Lock()
	defer c.mu.Unlock()
	return figures{}.plus(c.sum, 1)
}

func (c *counter) count(cmd redis.Cmder, took time.Duration) {
	args := cmd.Args()
	if name := cmd.Name(); name != "evalsha" && name != "eval" || len(args) < 3 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sum == nil {
		c.sum = figures{}
	}
	if cmd.Err() != nil {
		c.sum["failed"]++ // also the first of each script, which Redis does not know yet
		return
	}
	c.sum["seconds"] += took.Seconds()
	switch args[1] {
	case lua.Ask.Hash():
		c.sum["ask"]++
		if keys, ok := args[2].(int); ok {
			c.sum["limits"] += float64(keys / len(lua.Keys("", "", "", "", "")))
		}
	case lua.Beat.Hash():
		c.sum["beat"]++
	default:
		c.sum["other"]++
	}
}

// DialHook changes nothing.
func (c *counter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return next(ctx, network, address)
	}
}

// ProcessHook counts each command that was carried out.
func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		sent := time.Now()
		err := next(ctx, cmd)
		c.count(cmd, time.Since(sent))
		return err
	}
}

// ProcessPipelineHook changes nothing: scripts are called one by one.
func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
