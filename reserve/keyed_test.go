package reserve

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// A key that is used keeps its limit, however many others come. A key that is not used is forgotten
// after at most twice as many others as are remembered.
func TestKeysAreRemembered(t *testing.T) {
	var k keyed
	created := map[string]int{}
	get := func(key string) *wire.Limit {
		return k.get(key, func(key string) *wire.Limit { created[key]++; return &wire.Limit{Key: key} })
	}
	used := get("used")
	unused := get("unused")
	for i := range 4 * remembered {
		get(strconv.Itoa(i))
		require.Same(t, used, get("used"))
		if i == remembered-2 {
			require.Same(t, unused, get("unused"), "as many others came as are remembered")
		}
	}
	require.LessOrEqual(t, len(k.recent)+len(k.older), 2*remembered)
	require.NotSame(t, unused, get("unused"))
	require.Equal(t, 1, created["used"])
	require.Equal(t, 2, created["unused"])
}
