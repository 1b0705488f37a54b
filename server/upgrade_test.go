package server_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/internal/frozen"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/server"
)

// A process of the first builds of protocol 3 does not know leases. While a lease holds slots, its calls fail with
// ErrVersion, and the lease keeps its slots. After that, both share the limit.
func TestLeasesBesideAnEarlierProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		s, client := newSite(t, b, server.Config{}), b.Client()
		client.AddHook(frozen.New(frozen.Texts))
		before := b.Limiter(client, reserve.Config{Name: "slots", Limit: reserve.Concurrent(2)})
		take := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			r, err := before.Acquire(ctx, 1)
			if err == nil {
				r.Release()
				time.Sleep(time.Second)
			}
			return err
		}
		require.NoError(t, take())
		var turns []string
		for range 2 {
			turns = append(turns, `{"turn":"`+body(t, post(t, s, "/v1/wait", wants("slots"))).Turn+`"}`)
		}
		for range 15 {
			require.ErrorIs(t, take(), reserve.ErrVersion)
			time.Sleep(time.Second)
			for _, turn := range turns {
				require.Equal(t, http.StatusOK, post(t, s, "/v1/renew", turn).Code)
			}
		}
		for _, turn := range turns {
			require.Equal(t, http.StatusNoContent, post(t, s, "/v1/release", turn).Code)
		}
		require.NoError(t, take())
	})
}
