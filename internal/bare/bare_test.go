package bare

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWatch proves what counts as late, on a machine that is late as the test says.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		overslept := []time.Duration{0, late, 250 * time.Millisecond, 725 * time.Millisecond}
		s := watch(ctx, func(d time.Duration) {
			if len(overslept) > 0 {
				d += overslept[0]
				overslept = overslept[1:]
			}
			time.Sleep(d)
		})
		require.Zero(t, s.Share(), "nothing was watched yet")
		time.Sleep(2*nap + late + time.Millisecond) // two wake-ups, one of them late
		require.Equal(t, late, s.Longest())
		require.Zero(t, s.Share(), "that is how any machine is")

		time.Sleep(2*time.Second - 2*nap - late - time.Millisecond)
		synctest.Wait()
		require.Equal(t, 725*time.Millisecond, s.Longest())
		require.InDelta(t, 0.4875, s.Share(), 1e-9, "975 ms of two seconds")
		require.Equal(t, Figures{LongestMillis: 725, LateShare: 0.4875}, s.Figures())
		require.Equal(t, "a bare sleeper beside it woke up to 725.0 ms late, and lost 48.75 % of the time by that", s.Figures().Text())

		cancel()
		time.Sleep(nap)
		synctest.Wait()
		ended := s.Figures()
		time.Sleep(time.Hour)
		require.Equal(t, ended, s.Figures(), "it sleeps no more")
	})
}

// TestJSONNames proves by which names reports have it.
func TestJSONNames(t *testing.T) {
	text, err := json.Marshal(struct {
		Refused int `json:"refused"`
		Figures
	}{0, Figures{12.5, 0.01}})
	require.NoError(t, err)
	require.Equal(t, `{"refused":0,"bare_longest_ms":12.5,"bare_late_share":0.01}`, string(text))
}
