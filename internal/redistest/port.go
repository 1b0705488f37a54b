package redistest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Port returns a free port for a server that a test starts. Outgoing connections do not use it.
func Port(t testing.TB) string {
	t.Helper()
	port, err := quietPort()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(port)
}

// quietPort returns a free port below the range of outgoing connections. One of them could
// otherwise take the server's port while it is down.
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
