package reserve_test

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// wire counts the script calls of a client, and can make the way to Redis long
// or break it.
type wire struct {
	scripts atomic.Int64 // calls so far
	request atomic.Int64 // nanoseconds from the call to the server's work
	delay   atomic.Int64 // nanoseconds from the server's work to the reply
	fail    atomic.Int64 // how many of the next calls never reach the server
	lose    atomic.Int64 // of how many of the next calls the reply is lost

	once  atomic.Int64 // nanoseconds by which the next reply alone is late
	every atomic.Int64 // one of so many replies is late by once; 0: only the next
	count atomic.Int64 // of those
}

// delayOnce makes the next reply late.
func (w *wire) delayOnce(by time.Duration) { w.once.Store(int64(by)) }

// delayOneOf makes one of n replies late until stop.
func (w *wire) delayOneOf(n int64, by time.Duration) (stop func()) {
	w.every.Store(n)
	w.once.Store(int64(by))
	return func() { w.every.Store(0); w.once.Store(0) }
}

// late is by how much the reply that comes now is late alone.
func (w *wire) late() time.Duration {
	every := w.every.Load()
	switch {
	case every == 0:
		return time.Duration(w.once.Swap(0))
	case w.count.Add(1)%every == 0:
		return time.Duration(w.once.Load())
	default:
		return 0
	}
}

func (w *wire) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return next(ctx, network, address)
	}
}

func (w *wire) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (w *wire) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "eval" { // the script was not known
			return w.reply(cmd, next(ctx, cmd))
		}
		if cmd.Name() != "evalsha" {
			return next(ctx, cmd)
		}
		w.scripts.Add(1)
		if w.fail.Add(-1) >= 0 {
			err := &net.OpError{Op: "dial", Err: net.ErrClosed}
			cmd.SetErr(err)
			return err
		}
		time.Sleep(time.Duration(w.request.Load()))
		err := next(ctx, cmd)
		time.Sleep(time.Duration(w.delay.Load()) + w.late())
		return w.reply(cmd, err)
	}
}

// reply loses a reply, if it is to.
func (w *wire) reply(cmd redis.Cmder, err error) error {
	if err == nil && w.lose.Add(-1) >= 0 {
		cmd.SetErr(io.EOF)
		return io.EOF
	}
	return err
}

// wired is a process of the fleet with a wire.
func (b *bubble) wired(t testing.TB, limit reserve.Limit) (*reserve.Limiter, *wire) {
	return b.wiredWith(t, reserve.Config{Limit: limit})
}

func (b *bubble) wiredWith(t testing.TB, config reserve.Config) (*reserve.Limiter, *wire) {
	w, client := &wire{}, b.client()
	client.AddHook(w)
	config.Name = "api"
	l, err := reserve.New(client, config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l, w
}
