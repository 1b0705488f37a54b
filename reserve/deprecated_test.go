package reserve_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// TestEarlierNames calls what v0.2 named otherwise. The deprecated names are the subject.
func TestEarlierNames(t *testing.T) {
	server := redistest.Mini(t)
	config := reserve.Config{Name: "old", Limit: reserve.PerMinute(60), Lease: time.Second, Outage: reserve.Outage{Share: 0.5}}
	limiter, err := reserve.New(server.Client(t), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = limiter.Close() })
	joint, err := reserve.All(limiter)
	require.NoError(t, err)

	require.NoError(t, limiter.Wait(t.Context()))
	assert.Equal(t, limiter.PrefetchStats().Used, limiter.LeaseStats().Used)

	require.NoError(t, joint.Join(t.Context(), []reserve.Call{{ID: "a"}})[0].Err)
	r, err := joint.Ask(t.Context(), "a", time.Hour)
	require.NoError(t, err)
	assert.Equal(t, r.Granted(), r.Final())
	require.NoError(t, r.Keep(t.Context()))
	require.NoError(t, r.Book(t.Context()), "it is put back already")
	require.NoError(t, joint.Leave(t.Context(), "a"))

	config.Prefetch = 2 * time.Second
	_, err = reserve.New(server.Client(t), config)
	require.EqualError(t, err, "reserve: invalid Config.Lease: is the earlier name of Config.Prefetch: set one of them, got 1s and 2s")
	config.Lease, config.Outage.FallbackFraction = 0, 0.1
	_, err = reserve.New(server.Client(t), config)
	require.EqualError(t, err, "reserve: invalid Config.Outage.Share: is the earlier name of Config.Outage.FallbackFraction: set one of them, got 0.5 and 0.1")
}
