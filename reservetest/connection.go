package reservetest

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/fleetpace/fleetpace/internal/delay"
)

// dial makes a connection, also while the server is unreachable: then the connection breaks with
// the first command. If dial failed instead, go-redis would log each failure.
func (s *Server) dial(context.Context, string, string) (net.Conn, error) {
	dialed, err := s.redis.Dial()
	if err != nil {
		return nil, err
	}
	return delay.Conn(connection{dialed, s}, delay.Way{Out: func([]byte) time.Duration { return s.oneWay() }, Back: s.oneWay}), nil
}

// connection is the server's side of a connection.
type connection struct {
	net.Conn
	server *Server
}

// Write breaks the connection while the server is unreachable. It also sets a clock that has
// stepped, before the command, because miniredis holds a lock while scripts run.
func (c connection) Write(data []byte) (int, error) {
	if c.server.isAway() {
		_ = c.Close()
		return 0, io.ErrClosedPipe
	}
	c.server.setClock()
	return c.Conn.Write(data)
}

// Read reports a broken connection as io.EOF, as if the server had closed it.
func (c connection) Read(data []byte) (int, error) {
	n, err := c.Conn.Read(data)
	if errors.Is(err, io.ErrClosedPipe) {
		err = io.EOF
	}
	return n, err
}
