package redistest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// Port returns a free port for a server that a test starts. Outgoing connections do not use it, and no other test gets
// it before this process ends.
func Port(t testing.TB) string {
	t.Helper()
	port, err := quietPort()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(port)
}

// claims are the ports of this process, which it has until it ends.
var claims struct {
	sync.Mutex
	all []net.PacketConn
}

// quietPort returns a free port below the range of outgoing connections. One of them could otherwise take the server's
// port while it is down. The process claims the port, so that no server of another test takes it either.
func quietPort() (int, error) {
	const lowest, highest = 12_000, 30_000
	for range 1000 {
		port := lowest + rand.IntN(highest-lowest)
		if err := claim(port); err != nil {
			continue
		}
		if listener, err := net.Listen("tcp", address(port)); err == nil {
			return port, listener.Close()
		}
	}
	return 0, errors.New("found no free port")
}

// claim takes a port for UDP, which no server of a test uses. It fails if another process or test has claimed the port.
func claim(port int) error {
	claimed, err := net.ListenPacket("udp", address(port))
	if err != nil {
		return err
	}
	claims.Lock()
	defer claims.Unlock()
	claims.all = append(claims.all, claimed)
	return nil
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
