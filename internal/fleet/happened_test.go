package fleet_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// The last changes are kept with who made them, and expire. A change that fails is none.
func TestHappened(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		s := newScene(t, server)
		l, _ := s.process(reserve.Config{Limit: reserve.PerSecond(10)})
		require.NoError(t, l.For("acme").Wait(t.Context()))
		s.known(1)
		target, err := s.reader.Target(t.Context(), api, "acme", "")
		require.NoError(t, err)
		pause, err := target.Pause(time.Hour, "their page is red", "ann")
		require.NoError(t, err)
		require.NoError(t, target.Make(t.Context(), pause, "ann"))
		gone := &fleet.Change{Do: func(context.Context) error { return fleet.ErrNoSlot }}
		require.ErrorIs(t, target.Make(t.Context(), gone, "bob"), fleet.ErrNoSlot)
		events, err := s.reader.Happened(t.Context(), api, 100)
		require.NoError(t, err)
		require.Len(t, events, 1)
		for range 60 {
			require.NoError(t, target.Make(t.Context(), target.Resume(), "bob"))
		}
		events, err = s.reader.Happened(t.Context(), api, 100)
		require.NoError(t, err)
		require.Len(t, events, 50)
		pause, err = target.Pause(time.Minute, "", "ann")
		require.NoError(t, err)
		require.NoError(t, target.Make(t.Context(), pause, "ann"))
		events, err = s.reader.Happened(t.Context(), api, 2)
		require.NoError(t, err)
		require.Len(t, events, 2)
		require.WithinDuration(t, time.Now(), events[0].At, time.Minute)
		events[0].At, events[1].At = time.Time{}, time.Time{}
		require.Equal(t, []fleet.Event{{Key: "acme", What: "paused for 1m0s", Who: "ann"}, {Key: "acme", What: "resumed", Who: "bob"}}, events)
		require.Positive(t, s.client.PTTL(t.Context(), lua.Changes(s.prefix, "", "api")).Val())
	})
}
