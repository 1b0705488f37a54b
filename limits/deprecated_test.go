package limits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/limits"
	"github.com/fleetpace/fleetpace/reserve"
)

// TestEarlierNames reads a file of v0.2.
func TestEarlierNames(t *testing.T) {
	here(t, "limits:\n  - {name: a, limit: 10/s, lease: 1s, share: '{tenant}', weights: {acme: 3}}\n")
	set := load(t, reserve.Config{})
	about, err := set.About("a")
	require.NoError(t, err)
	assert.Equal(t, "{tenant}", about.Flow)
	assert.Equal(t, []string{"tenant"}, about.FlowNames)
	assert.Equal(t, time.Second, about.Prefetch)

	here(t, "limits:\n  - name: a\n    limit: 10/s\n    share: '{tenant}'\n    flow: '{tenant}'\n")
	require.EqualError(t, limits.Check("limits.yaml", reserve.Config{}), "limits.yaml:5: limits[0].flow: is there twice, first in line 4")
}

// The file replaces the default of the earlier name, also by 0. A limit that says nothing has the default.
func TestEarlierNameInDefaults(t *testing.T) {
	here(t, "limits:\n  - {name: a, limit: 10/s, lease: 2s}\n  - {name: b, limit: 10/s, prefetch: 0s}\n  - {name: c, limit: 10/s}\n")
	//lint:ignore SA1019 the earlier name is what is tested
	set := load(t, reserve.Config{Lease: time.Second})
	for name, prefetch := range map[string]time.Duration{"a": 2 * time.Second, "b": 0, "c": time.Second} {
		about, err := set.About(name)
		require.NoError(t, err)
		assert.Equal(t, prefetch, about.Prefetch, name)
	}
	//lint:ignore SA1019 the earlier name is what is tested
	require.ErrorContains(t, limits.Check("limits.yaml", reserve.Config{Lease: time.Second, Prefetch: time.Minute}), "Config.Lease")
}
