package adaptive_test

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/adaptive"
	"github.com/fleetpace/fleetpace/reserve"
)

// A limiter of a group has other keys. Decisions are carried out there, one per incident
// and each from the rate that is in force, for the limit as a whole and for its keys.
func TestGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		client := b.Client()
		limiter, err := reserve.New(client, reserve.Config{Name: "api", Group: "provider", Limit: reserve.PerSecond(100)})
		require.NoError(t, err)
		defer limiter.Close()
		var troubles bytes.Buffer
		rate, err := adaptive.New(client, limiter, adaptive.Config{
			Logger: slog.New(slog.NewTextHandler(&troubles, &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
		require.NoError(t, err)
		defer rate.Close()

		for adapt, p := range map[string]process{
			"fleetpace:{provider}/api:adapt":     {Limiter: limiter, rate: rate},
			"fleetpace:{provider}/api:adapt:k:1": {Limiter: limiter.For("k:1"), rate: rate.For("k:1")},
		} {
			for i, want := range []float64{70, 49} {
				time.Sleep(2 * time.Second)
				p.refused()
				require.InDelta(t, want, p.now(t), near)
				require.Equal(t, []string{"", "1", "2"}[i+1], b.Redis.HGet(adapt, "version"))
				require.Equal(t, b.Redis.HGet(adapt, "version"), b.Redis.HGet(adapt, "applied"), "the decision is in force")
			}
		}
		require.Empty(t, troubles.String())
	})
}
