package fleet_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// Reset names the limit that is in force afterwards: the plan of a key, if it has one.
func TestResetNamesThePlan(t *testing.T) {
	t.Parallel()
	s := newScene(t, redistest.Mini(t))
	all, _ := s.process(reserve.Config{Limit: reserve.PerSecond(1), LimitOf: func(key string) (reserve.Limit, int64) {
		if key == "pro-co" {
			return reserve.PerSecond(20).Burst(5), 1
		}
		return reserve.Limit{}, 0
	}})
	for key, says := range map[string]string{"pro-co": "of api/pro-co: its plan is 20/s burst 5", "free-co": "of api/free-co: the configured limit is 1/s"} {
		l := all.For(key)
		require.NoError(t, l.Wait(t.Context()))
		require.NoError(t, l.SetLimit(t.Context(), reserve.PerSecond(3), 0))
		s.known(1)
		target, err := s.reader.Target(t.Context(), api, key, "")
		require.NoError(t, err)
		require.Equal(t, "remove the override "+says, target.Reset().What)
	}
}
