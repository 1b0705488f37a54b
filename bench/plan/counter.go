package main

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/lua"
)

// counter is a hook of a client that counts script calls by script.
type counter struct {
	mu    sync.Mutex
	trips counts
}

// all is how many there were that did not fail.
func (c counts) all() float64 { return c.quick + c.takes + c.claims + c.others }

// counts are script calls and what was in them.
type counts struct {
	quick, takes, claims, others float64
	limits                       float64 // of quick calls
	failed                       float64
	seconds                      float64 // that those without an error took, as their callers saw it
}

func (c counts) minus(b counts) counts {
	return counts{c.quick - b.quick, c.takes - b.takes, c.claims - b.claims, c.others - b.others, c.limits - b.limits, c.failed - b.failed, c.seconds - b.seconds}
}

func (c counts) plus(b counts) counts {
	return counts{c.quick + b.quick, c.takes + b.takes, c.claims + b.claims, c.others + b.others, c.limits + b.limits, c.failed + b.failed, c.seconds + b.seconds}
}

func (c *counter) read() counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trips
}

func (c *counter) count(cmd redis.Cmder, took time.Duration) {
	args := cmd.Args()
	if name := cmd.Name(); name != "evalsha" && name != "eval" || len(args) < 3 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if cmd.Err() != nil {
		c.trips.failed++ // also the first of each script, which Redis does not know yet
		return
	}
	c.trips.seconds += took.Seconds()
	switch args[1] {
	case lua.Quick.Hash():
		c.trips.quick++
		if n, ok := args[2].(int); ok {
			c.trips.limits += float64(n)
		}
	case lua.Take.Hash():
		c.trips.takes++
	case lua.Claim.Hash():
		c.trips.claims++
	default:
		c.trips.others++
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

// ProcessPipelineHook counts each command of a pipeline.
func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		sent := time.Now()
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			c.count(cmd, time.Since(sent))
		}
		return err
	}
}
