// Package delay delays what connections in memory carry, in the simulated time of testing/synctest. It is
// for tests.
package delay

import (
	"bytes"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Way says what happens to bytes that are sent.
type Way struct {
	Out  func(data []byte) time.Duration // the time that they take to the server
	Back func() time.Duration            // the time that the server's reply takes back
	Lost func() bool                     // true: the connection breaks as the server replies; nil: it never breaks
	Dead func() bool                     // true: what the server sends never arrives; nil: it arrives
}

// conn is a connection with a delay in both directions. It keeps all bytes until they arrive, so that no
// Write waits: go-redis writes with a lock held, and so does miniredis as it publishes. Simulated time does
// not pass while a goroutine waits for a lock.
type conn struct {
	net.Conn
	way    Way
	said   chan parcel
	heard  chan parcel
	closed chan struct{}
	once   sync.Once

	mu     sync.Mutex
	until  time.Time // when a Read has to end; zero: no deadline
	broken error     // the error of the last Read, if the connection is broken
	rest   []byte
}

// parcel is a piece of data on its way, and when it arrives.
type parcel struct {
	data []byte
	err  error
	at   time.Time
}

// Conn returns a connection that delays what dialed carries.
func Conn(dialed net.Conn, way Way) net.Conn {
	c := &conn{Conn: dialed, way: way, said: make(chan parcel, 1000), heard: make(chan parcel, 1000), closed: make(chan struct{})}
	go c.listen()
	go c.deliver()
	return c
}

func (c *conn) listen() {
	for {
		data := make([]byte, 4096)
		n, err := c.Conn.Read(data)
		switch {
		case err == nil && c.way.Dead != nil && c.way.Dead():
			continue
		case err == nil && c.way.Lost != nil && c.way.Lost():
			_ = c.Conn.Close()
			n, err = 0, io.EOF
		}
		select {
		case c.heard <- parcel{data[:n], err, time.Now().Add(c.way.Back())}:
		case <-c.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

// deliver sends written data to the server. If that fails, listen finds the connection broken.
func (c *conn) deliver() {
	for {
		select {
		case p := <-c.said:
			select {
			case <-time.After(time.Until(p.at)):
				_, _ = c.Conn.Write(p.data)
			case <-c.closed:
				return
			}
		case <-c.closed:
			return
		}
	}
}

// Write sends data, and does not wait until it arrives.
func (c *conn) Write(data []byte) (int, error) {
	select {
	case <-c.closed:
		return 0, net.ErrClosed
	default:
	}
	select {
	case c.said <- parcel{data: bytes.Clone(data), at: time.Now().Add(c.way.Out(data))}:
		return len(data), nil
	case <-c.closed:
		return 0, net.ErrClosed
	}
}

// Read returns data that has arrived.
func (c *conn) Read(data []byte) (int, error) {
	if len(c.rest) == 0 {
		if err := c.receive(); err != nil {
			return 0, err
		}
	}
	n := copy(data, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *conn) receive() error {
	c.mu.Lock()
	until, broken := c.until, c.broken
	c.mu.Unlock()
	if broken != nil {
		return broken
	}
	var late <-chan time.Time
	if !until.IsZero() {
		left := time.Until(until)
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		timer := time.NewTimer(left)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case h := <-c.heard:
		time.Sleep(time.Until(h.at))
		c.rest = h.data
		c.mu.Lock()
		c.broken = h.err
		c.mu.Unlock()
		return h.err
	case <-late:
		return os.ErrDeadlineExceeded
	case <-c.closed:
		return net.ErrClosed
	}
}

// SetDeadline bounds Read alone, as Write never waits.
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetReadDeadline bounds the next Read.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = t
	return nil
}

// SetWriteDeadline does nothing.
func (*conn) SetWriteDeadline(time.Time) error { return nil }

// Close ends a Read, too.
func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
