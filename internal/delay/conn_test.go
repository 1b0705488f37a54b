package delay

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A Write with a lock held does not block a goroutine that waits for the lock: simulated time would not
// pass.
func TestNobodyWaitsForAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := Conn(near, Way{
			Out:  func([]byte) time.Duration { return time.Second },
			Back: func() time.Duration { return time.Minute },
		})
		defer far.Close()
		defer c.Close()
		began := time.Now()
		for _, text := range []string{"one", "two"} {
			n, err := c.Write([]byte(text))
			require.NoError(t, err)
			require.Equal(t, 3, n)
		}
		require.Zero(t, time.Since(began))
		data := make([]byte, 9)
		for _, text := range []string{"one", "two"} {
			n, err := far.Read(data)
			require.NoError(t, err)
			require.Equal(t, text, string(data[:n]))
			require.Equal(t, time.Second, time.Since(began))
		}
		_, err := far.Write([]byte("three"))
		require.NoError(t, err)
		n, err := c.Read(data)
		require.NoError(t, err)
		require.Equal(t, "three", string(data[:n]))
		require.Equal(t, time.Second+time.Minute, time.Since(began))
		require.NoError(t, c.Close())
		_, err = c.Write([]byte("four"))
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

// A broken connection stays broken: no call waits for a reply on it.
func TestABrokenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := Conn(near, Way{
			Out:  func([]byte) time.Duration { return time.Second },
			Back: func() time.Duration { return time.Second },
			Lost: func() bool { return true },
		})
		defer c.Close()
		go func() {
			_, _ = far.Write([]byte("answer"))
			_ = far.Close()
		}()
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		began := time.Now()
		for range 2 {
			_, err := c.Read(make([]byte, 9))
			require.ErrorIs(t, err, io.EOF)
			require.Equal(t, time.Second, time.Since(began))
		}
	})
}
