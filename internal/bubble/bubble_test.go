package bubble_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
)

// A client may dial in the background while its test ends.
func TestDialsAsTheTestEnds(t *testing.T) {
	var dials sync.WaitGroup
	for range 300 {
		t.Run("", func(t *testing.T) {
			dial := bubble.New(t).Client().Options().Dialer
			conn, err := dial(t.Context(), "", "")
			require.NoError(t, err)
			require.NoError(t, conn.Close())
			for range 4 {
				dials.Go(func() {
					if conn, err := dial(t.Context(), "", ""); err == nil {
						_ = conn.Close()
					}
				})
			}
		})
	}
	dials.Wait()
}

// A client that dials after its test has ended waits for nothing: a bubble may not end before all that waits in it.
func TestNoDialOutlivesItsBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late *redis.Client
		t.Cleanup(func() { // after those of the bubble
			go func() { assert.Error(t, late.Ping(context.Background()).Err()) }()
			synctest.Wait()
		})
		late = redis.NewClient(bubble.New(t).Client().Options())
	})
}
