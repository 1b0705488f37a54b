package reserve_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/delay"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// copier keeps the last ask of a process, to send it once more. It knows when the process looked last
// at which calls hold slots.
type copier struct {
	*bubble
	mu     sync.Mutex
	sent   []byte
	looked time.Time
}

// copied is a connection whose asks are kept.
type copied struct {
	net.Conn
	c *copier
}

func (c copied) Write(b []byte) (int, error) {
	c.c.mu.Lock()
	if bytes.Contains(b, []byte(lua.Ask.Hash())) {
		c.c.sent = bytes.Clone(b)
	}
	if bytes.Contains(b, []byte("\r\nzrange\r\n")) {
		c.c.looked = time.Now()
	}
	c.c.mu.Unlock()
	return c.Conn.Write(b)
}

func (c *copier) client() *redis.Client {
	there := delay.Way{Out: func([]byte) time.Duration { return way }, Back: func() time.Duration { return way }}
	client := redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			dialed, err := c.mini.Dial()
			if err != nil {
				return nil, err
			}
			return copied{delay.Conn(dialed, there), c}, nil
		},
		Addr: "127.0.0.1:6379", MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		DisableIdentity: true, MaxRetries: -1,
	})
	c.Cleanup(func() { _ = client.Close() })
	return client
}

// look waits until the process has looked later than a time.
func (c *copier) look(than time.Time) {
	for {
		c.mu.Lock()
		done := c.looked.After(than)
		c.mu.Unlock()
		if done {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// again sends the ask once more.
func (c *copier) again() {
	conn, err := c.mini.Dial()
	require.NoError(c, err)
	c.mu.Lock()
	_, err = conn.Write(c.sent)
	c.mu.Unlock()
	require.NoError(c, err)
	_, err = conn.Read(make([]byte, 4096))
	require.NoError(c, err)
	_ = conn.Close()
}

// A copy of an ask that has given a call its slot comes late. Whatever the process knew as it asked,
// the call keeps its slot.
func TestALateCopyOfAnAskTakesNoSlot(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, b *bubble, slot, rate *reserve.Limiter){
		"the first of a process": func(*testing.T, *bubble, *reserve.Limiter, *reserve.Limiter) {},
		"the first of a limit":   func(t *testing.T, _ *bubble, _, rate *reserve.Limiter) { soon(t, joint(t, rate)) },
		"the first of a key":     func(t *testing.T, _ *bubble, slot, _ *reserve.Limiter) { soon(t, joint(t, slot.For("another"))) },
		"one of many":            func(t *testing.T, _ *bubble, slot, _ *reserve.Limiter) { soon(t, joint(t, slot.For("key"))) },
		"the first after a loss": func(t *testing.T, b *bubble, slot, _ *reserve.Limiter) {
			soon(t, joint(t, slot.For("key")))
			b.mini.FlushAll()
		},
		"the first of a key, after a loss": func(t *testing.T, b *bubble, slot, _ *reserve.Limiter) {
			soon(t, joint(t, slot.For("another")))
			b.mini.FlushAll()
		},
	} {
		for _, with := range []string{"", ", with a rate"} {
			for _, late := range []time.Duration{0, 20 * time.Millisecond, 5 * time.Second} {
				t.Run(fmt.Sprintf("%s%s, %v late", name, with, late), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						b := newBubble(t)
						c := &copier{bubble: b}
						client := c.client()
						one := reserve.Config{Group: "g", Name: "slot", Limit: reserve.Concurrent(1)}
						slot, rate := b.on(client, one), b.on(client, reserve.Config{Group: "g", Name: "rate", Limit: reserve.PerSecond(100)})
						other := b.with(one)
						soon(t, joint(t, other.For("a third"))) // the scripts are there
						before(t, b, slot, rate)
						call := joint(t, slot.For("key"))
						if with != "" {
							call = joint(t, slot.For("key"), rate)
						}
						held, err := call.Acquire(t.Context())
						require.NoError(t, err)
						ended := taking(joint(t, other.For("key")))
						time.Sleep(late)
						c.again()
						select {
						case <-ended:
							held.Release()
							t.Fatal("two calls hold the slot")
						case <-time.After(2 * time.Second):
						}
						held.Release()
						require.NoError(t, <-ended)
					})
				})
			}
		}
	}
}
