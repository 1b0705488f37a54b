package asynqtest

import (
	"net"
	"os"
	"sync"
	"time"
)

// conn is a connection that takes its time. What comes from Redis is taken off the other end
// at once: a Redis in memory holds its lock while it writes to who listens.
type conn struct {
	net.Conn
	way  time.Duration // to Redis, and as long back
	came chan piece
	left []byte

	mu    sync.Mutex
	until time.Time     // of reads; zero: any time
	moved chan struct{} // closed when that changes
}

// piece is some bytes on their way.
type piece struct {
	at   time.Time
	data []byte
	err  error
}

func newConn(c net.Conn, way time.Duration) *conn {
	d := &conn{Conn: c, way: way, came: make(chan piece, 10_000), moved: make(chan struct{})}
	go func() {
		for {
			buffer := make([]byte, 4096)
			n, err := c.Read(buffer)
			d.came <- piece{time.Now().Add(way), buffer[:n], err}
			if err != nil {
				close(d.came)
				return
			}
		}
	}()
	return d
}

func (c *conn) Write(b []byte) (int, error) {
	time.Sleep(c.way)
	return c.Conn.Write(b)
}

func (c *conn) Read(b []byte) (int, error) {
	for len(c.left) == 0 {
		c.mu.Lock()
		until, moved := c.until, c.moved
		c.mu.Unlock()
		var over <-chan time.Time
		if !until.IsZero() {
			timer := time.NewTimer(time.Until(until))
			defer timer.Stop()
			over = timer.C
		}
		select {
		case p, ok := <-c.came:
			time.Sleep(time.Until(p.at))
			switch {
			case !ok:
				return 0, net.ErrClosed
			case len(p.data) == 0 && p.err != nil:
				return 0, p.err
			}
			c.left = p.data
		case <-over:
			return 0, os.ErrDeadlineExceeded
		case <-moved:
		}
	}
	n := copy(b, c.left)
	c.left = c.left[n:]
	return n, nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = t
	close(c.moved)
	c.moved = make(chan struct{})
	return nil
}

func (c *conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}
