package integration

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/stall"
)

// beside judges what depends on time by how much of it the machine ran nobody: where a test
// meets that, it gives no verdict. Its result reports whether one can be given.
func beside(t *testing.T) (judged func(ok bool, what string, args ...any)) {
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	watch := stall.Start(ctx)
	return func(ok bool, what string, args ...any) {
		t.Helper()
		switch share := watch.Share(); {
		case ok:
		case share < 0.01:
			t.Errorf(what, args...)
		default:
			t.Logf("NOT JUDGED: this machine stalled for %.1f %% of the test: "+what, append([]any{100 * share}, args...)...)
		}
	}
}

// calmly expects that a run ends without an error. With a burst of 1 a turn that comes
// while the machine runs nobody passes unused; so a run that fails beside such stalls gives
// no verdict: it is repeated, at most twice, and the last counts.
func calmly(t *testing.T, run func(t *testing.T) error) {
	t.Helper()
	for attempt := 1; ; attempt++ {
		ctx, stop := context.WithCancel(t.Context())
		watch := stall.Start(ctx)
		err := run(t)
		share := watch.Share()
		stop()
		if err == nil {
			return
		}
		if attempt == 3 || share < 0.01 {
			require.NoError(t, err)
		}
		t.Logf("NOT JUDGED: this machine stalled for %.1f %% of the run: %v", 100*share, err)
	}
}
