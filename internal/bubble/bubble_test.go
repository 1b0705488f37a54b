package bubble_test

import (
	"sync"
	"testing"

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
