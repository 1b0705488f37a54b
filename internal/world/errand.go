package world

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// An errand is code of a process that waits for replies of Redis. It is a coroutine: nothing else runs
// while it runs, and it continues when its process receives the reply.

// await arranges for an errand to continue.
type await func(goOn func())

type awaitKey struct{}

// waitsFor suspends an errand. It reports false if the world is over.
func waitsFor(ctx context.Context, a await) bool {
	wait, _ := ctx.Value(awaitKey{}).(func(await) bool)
	return wait(a)
}

// errand starts an errand.
func (m *client) errand(do func(context.Context)) {
	next, stop := iter.Pull(func(yield func(await) bool) {
		alive := true
		do(context.WithValue(context.Background(), awaitKey{}, func(a await) bool {
			alive = alive && yield(a)
			return alive
		}))
	})
	m.world.errands = append(m.world.errands, stop)
	var goOn func()
	goOn = func() {
		if a, more := next(); more {
			a(goOn)
		}
	}
	goOn()
}

// rests suspends an errand for a time.
func rests(ctx context.Context, d time.Duration, after func(time.Duration, func())) bool {
	return waitsFor(ctx, func(goOn func()) { after(d, goOn) })
}

// over is a hook of a go-redis client that sends its commands over a link.
type over struct{ *link }

// exchange sends commands, and waits for the replies to all of them.
func (o over) exchange(ctx context.Context, cmds ...redis.Cmder) error {
	replies, errs, left := make([]any, len(cmds)), make([]error, len(cmds)), len(cmds)
	answered := waitsFor(ctx, func(goOn func()) {
		for n, cmd := range cmds {
			args := make([]string, len(cmd.Args()))
			for i, a := range cmd.Args() {
				args[i] = fmt.Sprint(a)
			}
			o.send(args, func(reply any, err error) {
				replies[n], errs[n] = reply, err
				if left--; left == 0 {
					goOn()
				}
			})
		}
	})
	for n, cmd := range cmds {
		if !answered {
			errs[n] = broken("read", net.ErrClosed)
		}
		errs[n] = deliver(cmd, replies[n], errs[n])
	}
	return errors.Join(errs...)
}

// DialHook changes nothing.
func (over) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook sends a command.
func (o over) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return o.exchange(ctx, cmd) }
}

// ProcessPipelineHook sends the commands of a pipeline at once.
func (o over) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return o.exchange(ctx, cmds...) }
}

// deliver puts a reply into its command.
func deliver(cmd redis.Cmder, reply any, err error) error {
	if err != nil {
		cmd.SetErr(err)
		return err
	}
	switch c := cmd.(type) {
	case interface{ SetVal(any) }:
		c.SetVal(reply)
	case *redis.IntCmd:
		n, _ := reply.(int64)
		c.SetVal(n)
	case *redis.SliceCmd:
		all, _ := reply.([]any)
		c.SetVal(all)
	case *redis.ZSliceCmd:
		all, _ := reply.([]any)
		var z []redis.Z
		for i := 0; i+1 < len(all); i += 2 {
			score, _ := all[i+1].(string)
			value, _ := strconv.ParseFloat(score, 64)
			z = append(z, redis.Z{Member: all[i], Score: value})
		}
		c.SetVal(z)
	default:
		panic("the world knows no reply of " + strings.ToUpper(cmd.Name()))
	}
	return nil
}
