package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/bench/internal/programtest"
)

func TestNoProcessIsLeft(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel() // mostly waiting
			programtest.NeedRedis(t)
			family := programtest.NewFamily(t, "-processes", "2", "-seconds", "50", "-contender", "fleetpace-worker")
			stderr, err := family.StderrPipe()
			require.NoError(t, err)
			require.NoError(t, family.Start())

			// Its progress shows that it works; then all are there: the program,
			// the keeper, the Redis, two servers, and two bare callers.
			var said strings.Builder
			for buffer := make([]byte, 1024); !strings.Contains(said.String(), "fleetpace-worker:"); {
				n, err := stderr.Read(buffer)
				require.NoError(t, err, "%s", &said)
				said.Write(buffer[:n])
			}
			require.Equal(t, 7, family.Size(t))
			family.EndsBy(t, signal)
		})
	}
}
