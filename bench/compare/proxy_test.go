package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echo sends back what comes.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	return listener.Addr().String()
}

func TestProxyDelays(t *testing.T) {
	const oneWay = 20 * time.Millisecond
	p, err := startProxy(echo(t), oneWay)
	require.NoError(t, err)
	defer p.stop()
	conn, err := net.Dial("tcp", p.address())
	require.NoError(t, err)
	defer conn.Close()

	lines := bufio.NewReader(conn)
	quickest := time.Hour
	for range 5 {
		began := time.Now()
		_, err = io.WriteString(conn, "hello\n")
		require.NoError(t, err)
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "hello\n", line)
		quickest = min(quickest, time.Since(began))
	}
	require.GreaterOrEqual(t, quickest, 2*oneWay)
	require.Less(t, quickest, 3*oneWay)
}

// What is sent without waiting for the answer arrives in order, and is delayed once,
// not each after the other.
func TestProxyDelaysAllAlike(t *testing.T) {
	const oneWay, count = 20 * time.Millisecond, 200
	p, err := startProxy(echo(t), oneWay)
	require.NoError(t, err)
	defer p.stop()
	conn, err := net.Dial("tcp", p.address())
	require.NoError(t, err)
	defer conn.Close()

	began := time.Now()
	go func() {
		for i := range count {
			fmt.Fprintf(conn, "%d\n", i)
			time.Sleep(100 * time.Microsecond)
		}
	}()
	lines := bufio.NewReader(conn)
	for i := range count {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%d\n", i), line)
	}
	require.Less(t, time.Since(began), count*oneWay/4)
}

func TestProxyEndsItsConnections(t *testing.T) {
	p, err := startProxy(echo(t), time.Millisecond)
	require.NoError(t, err)
	conn, err := net.Dial("tcp", p.address())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "hello\n")
	require.NoError(t, err)
	_, err = bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	p.stop()
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
}
