package database_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/bench/internal/child"
	"github.com/fleetpace/fleetpace/bench/internal/database"
	"github.com/fleetpace/fleetpace/bench/internal/programtest"
	"github.com/fleetpace/fleetpace/bench/internal/redisserver"
)

func TestMain(m *testing.M) {
	programtest.Main(m, func() { child.Main(child.Roles{redisserver.KeeperRole: redisserver.Keep}) })
}

func TestWhatIsNamedIsUsed(t *testing.T) {
	const named = "redis://somewhere:1/9"
	url, stop, err := database.Open(named)
	require.NoError(t, err)
	stop()
	require.Equal(t, named, url)
}

func TestWithoutAServerTheFlagIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, _, err := database.Open("")
	require.ErrorIs(t, err, redisserver.ErrMissing)
	require.ErrorContains(t, err, "brew install redis), or name a running Redis with -redis")
}

func TestOnlyAnEmptyDatabaseWillDo(t *testing.T) {
	programtest.NeedRedis(t)
	url, stop, err := database.Open("")
	require.NoError(t, err)
	defer stop()
	options, err := redis.ParseURL(url)
	require.NoError(t, err)
	client := redis.NewClient(options)
	defer client.Close()
	require.NoError(t, database.ExpectEmpty(t.Context(), client, "cases"))
	require.NoError(t, client.Set(t.Context(), "somebody's", "data", 0).Err())
	require.ErrorContains(t, database.ExpectEmpty(t.Context(), client, "cases"), "holds 1 keys")
	require.NoError(t, database.Empty(client))
	require.NoError(t, database.ExpectEmpty(t.Context(), client, "cases"))
}
