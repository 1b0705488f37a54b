package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/bench/internal/programtest"
)

func TestNoProcessIsLeft(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			programtest.NeedRedis(t)
			family := programtest.NewFamily(t, "-case", "accuracy", "-seconds", "50")
			require.NoError(t, family.Start())

			// The program, the keeper, the Redis, and the fleet.
			require.Eventually(t, func() bool { return family.Size(t) == 3+fleetProcesses }, time.Minute, 20*time.Millisecond)
			family.EndsBy(t, signal)
		})
	}
}
