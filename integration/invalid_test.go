package integration_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/inbound"
	"github.com/fleetpace/fleetpace/limits"
	"github.com/fleetpace/fleetpace/llm"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/scheduler"
	"github.com/fleetpace/fleetpace/server"
	"github.com/fleetpace/fleetpace/transport"
	"github.com/fleetpace/fleetpace/worker"
)

// TestErrInvalid: the ErrInvalid of each package is that of package reserve.
func TestErrInvalid(t *testing.T) {
	for _, err := range []error{limits.ErrInvalid, llm.ErrInvalid, server.ErrInvalid, scheduler.ErrInvalid, inbound.ErrInvalid, transport.ErrInvalid, worker.ErrInvalid} {
		require.ErrorIs(t, err, reserve.ErrInvalid)
	}
	require.ErrorIs(t, reserve.ErrWouldMissDeadline, context.DeadlineExceeded)
}
