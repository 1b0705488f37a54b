package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
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

// simulatedProxy is a proxy of in-memory connections before an echo, and a client of it.
func simulatedProxy(t *testing.T, oneWay time.Duration) net.Conn {
	t.Helper()
	p := &proxy{oneWay: oneWay, open: make(map[net.Conn]struct{})}
	client, near := net.Pipe()
	far, server := net.Pipe()
	require.True(t, p.keep(near, far))
	p.ended.Go(func() { p.carry(near, far) })
	p.ended.Go(func() { p.carry(far, near) })
	go func() { _, _ = io.Copy(server, server) }()
	t.Cleanup(func() {
		_, _ = client.Close(), server.Close()
		p.ended.Wait()
	})
	return client
}

func TestProxyDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const oneWay = 20 * time.Millisecond
		conn := simulatedProxy(t, oneWay)
		lines := bufio.NewReader(conn)
		for range 5 {
			began := time.Now()
			_, err := io.WriteString(conn, "hello\n")
			require.NoError(t, err)
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "hello\n", line)
			require.Equal(t, 2*oneWay, time.Since(began))
		}
	})
}

// What is sent without waiting for the answer arrives in order, and is delayed once,
// not each after the other.
func TestProxyDelaysAllAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const oneWay, count, apart = 20 * time.Millisecond, 200, 100 * time.Microsecond
		conn := simulatedProxy(t, oneWay)
		began := time.Now()
		go func() {
			for i := range count {
				fmt.Fprintf(conn, "%d\n", i)
				time.Sleep(apart)
			}
		}()
		lines := bufio.NewReader(conn)
		for i := range count {
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("%d\n", i), line)
		}
		require.Equal(t, 2*oneWay+(count-1)*apart, time.Since(began))
		time.Sleep(apart) // the end of the writer
	})
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
