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
			family := programtest.NewFamily(t, "-check", "-seconds", "50")
			require.NoError(t, family.Start())

			// The program, and a keeper and a Redis for each master. The last may not
			// serve yet.
			require.Eventually(t, func() bool { return family.Size(t) == 1+2*masters }, time.Minute, 20*time.Millisecond)
			family.EndsBy(t, signal)
		})
	}
}
