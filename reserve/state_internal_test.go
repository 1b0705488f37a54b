package reserve

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Who looks up where a line is learns Redis's time, too: turns that move with the line have
// a moment on Redis's clock afterwards.
func TestWhereaboutsTellRedissTime(t *testing.T) {
	l, client := used(t, PerSecond(5))
	before := client.Time(t.Context()).Val()
	g, err := l.core.whereabouts(t.Context(), l.core.root)
	require.NoError(t, err)
	require.GreaterOrEqual(t, g.seen, before.UnixMicro())
}
