package reserve

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Who looks up where a line is learns Redis's time, too: turns that move with the line have
// a moment on Redis's clock afterwards.
func TestWhereaboutsTellRedissTime(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	l, err := New(client, Config{Name: "api", Limit: PerSecond(5)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	require.NoError(t, l.Wait(t.Context()))
	before := client.Time(t.Context()).Val()
	g, err := l.core.whereabouts(t.Context(), l.core.root)
	require.NoError(t, err)
	require.GreaterOrEqual(t, g.seen, before.UnixMicro())
}
