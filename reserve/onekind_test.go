package reserve_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	limitkinds "github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/reserve"
)

// Two kinds of limit are not in force under one name: the calls of the later process fail, and say
// so. When nobody lives who uses the other kind, the name may have the new one. All pairs of kinds.
func TestANameHasOneKind(t *testing.T) {
	for i, first := range limitkinds.Kinds[:4] {
		for j, second := range limitkinds.Kinds[:4] {
			if i == j {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				client := b.client()
				one := b.on(client, reserve.Config{Limit: first.Limits[0]})
				two := b.limiter(second.Limits[0])
				require.NoError(t, one.Wait(t.Context()))
				time.Sleep(time.Second)
				_, _ = two.Allow(t.Context())
				time.Sleep(100 * time.Millisecond)
				for range 5 {
					_, err := two.Allow(t.Context())
					require.ErrorIs(t, err, reserve.ErrInvalid, "%s, then %s", first.Name, second.Name)
					assert.ErrorContains(t, err, first.Limits[0].String())
					time.Sleep(time.Second)
					_, err = one.Allow(t.Context())
					require.NoError(t, err)
				}
				require.NoError(t, one.Close())
				time.Sleep(2 * time.Second)
				_, _ = two.Allow(t.Context())
				time.Sleep(6 * time.Second)
				_, err := two.Allow(t.Context())
				require.NoError(t, err, "%s, then %s: nobody uses the other kind", first.Name, second.Name)
			})
		}
	}
}
