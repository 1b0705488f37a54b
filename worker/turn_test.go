package worker_test

import (
	"testing"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/worker"
)

func TestHeadersTravel(t *testing.T) {
	for _, want := range []worker.Need{
		{}, {Key: "shop 7: ümlaut", Cost: 12}, {Skip: true}, {Cost: 1}, {Key: "k", Costs: []int{1, 600, 3}},
		{Flow: "tenant: ümlaut", Weight: 2.5, Urgent: true},
	} {
		got, err := worker.FromHeaders(t.Context(), asynq.NewTaskWithHeaders("type", nil, want.Headers()))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	got, err := worker.FromHeaders(t.Context(), asynq.NewTask("type", nil))
	require.NoError(t, err)
	require.Equal(t, worker.Need{}, got)
	require.Equal(t, worker.Need{Cost: 5}.Headers(), worker.Need{Costs: []int{5}}.Headers())
}

func TestBadHeadersAreNamed(t *testing.T) {
	for header, values := range map[string][]string{
		"fleetpace-cost": {"", "0", "-1", "1.5", "many", "99999999999999999999", "1,", "1,0", "1;2"},
		"fleetpace-skip": {"", "perhaps"}, "fleetpace-urgent": {"", "very"}, "fleetpace-weight": {"", "heavy", "1,5"},
	} {
		for _, value := range values {
			_, err := worker.FromHeaders(t.Context(), asynq.NewTaskWithHeaders("type", nil, map[string]string{header: value}))
			require.ErrorContains(t, err, header)
			require.ErrorContains(t, err, `"`+value+`"`)
		}
	}
}
