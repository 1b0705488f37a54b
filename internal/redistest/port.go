package redistest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Port is a free port for a server that a test starts: no connection is given it meanwhile.
func Port(t testing.TB) string {
	t.Helper()
	port, err := quietPort()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(port)
}

// quietPort is a free port below those that systems give to outgoing
// connections: one of these could take the server's port while it is down.
func quietPort() (int, error) {
	const lowest, highest = 12_000, 30_000
	for range 1000 {
		port := lowest + rand.IntN(highest-lowest)
		if listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, listener.Close()
		}
	}
	return 0, errors.New("found no free port")
}
