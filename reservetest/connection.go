package reservetest

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/fleetpace/fleetpace/internal/delay"
)

// dial makes a connection, also to a server that is away: it breaks with the first command. Of
// one that can not be made go-redis writes to the log each time.
func (s *Server) dial(context.Context, string, string) (net.Conn, error) {
	dialed, err := s.redis.Dial()
	if err != nil {
		return nil, err
	}
	return delay.Conn(connection{dialed, s}, delay.Way{Out: func([]byte) time.Duration { return s.oneWay() }, Back: s.oneWay}), nil
}

// connection is one to a server, as commands come in.
type connection struct {
	net.Conn
	server *Server
}

// Write breaks the connection while the server is away, and sets a clock that has stepped: before
// a command, as miniredis holds a lock while scripts run.
func (c connection) Write(data []byte) (int, error) {
	if c.server.isAway() {
		_ = c.Close()
		return 0, io.ErrClosedPipe
	}
	c.server.setClock()
	return c.Conn.Write(data)
}

// Read tells of a broken connection as a server that closes it does.
func (c connection) Read(data []byte) (int, error) {
	n, err := c.Conn.Read(data)
	if errors.Is(err, io.ErrClosedPipe) {
		err = io.EOF
	}
	return n, err
}
