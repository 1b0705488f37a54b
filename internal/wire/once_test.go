package wire

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/fault"
	scripts "github.com/fleetpace/fleetpace/lua"
)

// deaf is a connection that hears no reply to a script.
type deaf struct {
	net.Conn
	sent *atomic.Int64
	call bool
}

func (d *deaf) Write(b []byte) (int, error) {
	if d.call = bytes.Contains(b, []byte("evalsha")); d.call {
		d.sent.Add(1)
	}
	return d.Conn.Write(b)
}

func (d *deaf) Read(b []byte) (int, error) {
	if n, err := d.Conn.Read(b); !d.call || err != nil {
		return n, err
	}
	return 0, io.EOF
}

// Where a reply is lost, the client does not send the call once more by itself.
func TestACallIsMadeOnce(t *testing.T) {
	server := miniredis.RunT(t)
	var sent atomic.Int64
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &deaf{Conn: c, sent: &sent}, err
	}})
	defer func() { _ = client.Close() }()
	c := &Call{Caller: Caller{Process: "p"}, Client: client, Limits: []*Limit{
		NewLimit(Terms{Kind: "p", A: 1000, B: 5}, scripts.Keys("t", "", "api", "p", ""), new(Name)),
	}}
	_, _, err := Ask(t.Context(), c, []Item{{Count: 1, Number: 1, Parts: []Part{{Cost: 1}}}})
	require.ErrorIs(t, err, fault.ErrOutcomeUnknown)
	require.EqualValues(t, 1, sent.Load())
}
