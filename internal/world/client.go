package world

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// client is a process that uses package reserve on go-redis. It lives in the simulated time of
// testing/synctest, where its goroutines run; what it sends goes over the link of the process.
type client struct {
	*process
	world    *world
	redis    *redis.Client
	limiters []*reserve.Limiter
	cancels  map[*call]context.CancelFunc
	held     map[*call]*reserve.Reservation
	released map[*call]chan struct{} // closed when the slots of a call are
}

// newClient is the member of a process today.
func newClient(w *world, p *process) member {
	m := &client{process: p, world: w, cancels: map[*call]context.CancelFunc{}, held: map[*call]*reserve.Reservation{}, released: map[*call]chan struct{}{}}
	m.redis = redis.NewClient(&redis.Options{
		Dialer:                   m.dial,
		Addr:                     "127.0.0.1:6379", // it needs no look-up
		Protocol:                 2,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		DisableIdentity:          true,
		DialerRetries:            1,
		ReadTimeout:              p.timeout,
		WriteTimeout:             p.timeout,
	})
	m.redis.AddHook(m)
	for _, l := range w.plan.limits {
		config := reserve.Config{
			Name: l.name, Limit: l.limit, Settles: l.settles, Lease: l.lease, Group: w.plan.group(),
			Outage: reserve.Outage{Policy: w.plan.policy}, Logger: slog.New(slog.DiscardHandler),
		}
		limiter, err := reserve.New(m.redis, config)
		if err != nil {
			panic(fmt.Sprintf("limit %s: %v", l.name, err)) // the plan is checked before
		}
		m.limiters = append(m.limiters, limiter)
	}
	return m
}

// keys are the keys of a limit.
func (p *plan) keys(n int) []string {
	l := &p.limits[n]
	kind := map[reserve.Kind]string{
		reserve.KindPaced: "p", reserve.KindWarmingUp: "w", reserve.KindQuota: "q", reserve.KindRolling: "r", reserve.KindSlots: "s",
	}[l.limit.Kind()]
	return lua.Keys(reserve.DefaultPrefix, p.group(), l.name, kind, "")
}

// group is that of the limits, if calls may need several at once.
func (p *plan) group() string {
	if len(p.limits) > 1 {
		return "fleet"
	}
	return ""
}

// dial opens a connection that hears news.
func (m *client) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	m.world.Lock()
	pause := m.travel() * 2
	m.world.Unlock()
	select {
	case <-time.After(pause):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	m.world.Lock()
	defer m.world.Unlock()
	return m.listen(m.world)
}

// DialHook changes nothing.
func (m *client) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook sends a command over the link, in place of a connection.
func (m *client) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		reply, err := m.exchange(cmd)
		return deliver(cmd, reply, err)
	}
}

// ProcessPipelineHook does so with each command of a pipeline.
func (m *client) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "hello" { // of a connection that hears news
			return next(ctx, cmds)
		}
		for _, cmd := range cmds {
			reply, err := m.exchange(cmd)
			if err := deliver(cmd, reply, err); err != nil {
				return err
			}
		}
		return nil
	}
}

type outcome struct {
	reply any
	err   error
}

// exchange sends a command and waits for its reply.
func (m *client) exchange(cmd redis.Cmder) (any, error) {
	args := make([]string, len(cmd.Args()))
	for i, a := range cmd.Args() {
		args[i] = fmt.Sprint(a)
	}
	done := make(chan outcome, 1)
	m.world.Lock()
	m.send(args, func(reply any, err error) { done <- outcome{reply, err} })
	over := m.world.closed
	m.world.Unlock()
	select {
	case o := <-done:
		return o.reply, o.err
	case <-over:
		return nil, broken("read", net.ErrClosed)
	}
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
	case *redis.StringCmd:
		text, _ := reply.(string)
		c.SetVal(text)
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
			value, _ := bound(score)
			z = append(z, redis.Z{Member: all[i], Score: value})
		}
		c.SetVal(z)
	default:
		panic("the world knows no reply of " + strings.ToUpper(cmd.Name()))
	}
	return nil
}
