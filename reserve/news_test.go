package reserve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A connection that has died silently is given up, too, once no call waits: not only when
// the answer to its PING has not come for long enough.
func TestNewsEndOnASilentConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", Protocol: 2, DisableIdentity: true, MaxRetries: -1, Dialer: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go subscribesOnly(theirs)
			return ours, nil
		}})
		l, err := New(client, Config{Name: "api", Limit: PerSecond(1)})
		require.NoError(t, err)
		waits := &line{core: l.core, keys: l.core.keys(""), queues: map[int64]*queue{1: {}}}
		l.core.lines[""] = waits
		ended := make(chan error, 1)
		go func() { ended <- l.core.subscribe() }()
		time.Sleep(quiet + 5*time.Second) // its PING has no answer
		select {
		case err := <-ended:
			t.Fatalf("it ended while a call waits: %v", err)
		default:
		}
		waits.mu.Lock()
		waits.queues = nil
		waits.mu.Unlock()
		began := time.Now()
		require.NoError(t, <-ended)
		require.LessOrEqual(t, time.Since(began), 2*idle)
		require.NoError(t, client.Close())
	})
}

// subscribesOnly is a server that knows no command but SUBSCRIBE, and does not answer a PING.
func subscribesOnly(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	number := func() (n int, err error) {
		text, err := in.ReadString('\n')
		if err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(text[1:]))
		}
		return n, err
	}
	for {
		n, err := number()
		if err != nil {
			return
		}
		words := make([]string, n)
		for i := range words {
			size, err := number()
			word := make([]byte, size+2)
			if _, failed := io.ReadFull(in, word); err != nil || failed != nil {
				return
			}
			words[i] = string(word[:size])
		}
		switch strings.ToLower(words[0]) {
		case "ping":
		case "subscribe":
			_, _ = fmt.Fprintf(c, "*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:1\r\n", len(words[1]), words[1])
		default:
			_, _ = fmt.Fprintf(c, "-ERR unknown command\r\n")
		}
	}
}
