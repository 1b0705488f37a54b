package redisserver_test

import (
	"net"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/bench/internal/child"
	"github.com/fleetpace/fleetpace/bench/internal/programtest"
	"github.com/fleetpace/fleetpace/bench/internal/redisserver"
)

func TestMain(m *testing.M) {
	programtest.Main(m, func() { child.Main(child.Roles{redisserver.KeeperRole: redisserver.Keep}) })
}

func TestAServerTakesOptionsAndLeavesNothing(t *testing.T) {
	programtest.NeedRedis(t)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	s, err := redisserver.Start("--maxmemory", "12345678")
	require.NoError(t, err)
	defer s.Stop()
	client := s.Client()
	defer client.Close()
	config, err := client.ConfigGet(t.Context(), "maxmemory").Result()
	require.NoError(t, err)
	require.Equal(t, map[string]string{"maxmemory": "12345678"}, config)
	options, err := redis.ParseURL(s.URL())
	require.NoError(t, err)
	require.Equal(t, s.Address, options.Addr)

	s.Stop()
	_, err = net.Dial("tcp", s.Address)
	require.Error(t, err, "it has ended")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestAServerThatDoesNotStartIsTold(t *testing.T) {
	programtest.NeedRedis(t)
	_, err := redisserver.Start("--no-such-option", "1")
	require.ErrorContains(t, err, "it left instead of serving")
}

func TestNoServerNoStart(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := redisserver.Start()
	require.ErrorIs(t, err, redisserver.ErrMissing)
}

// A parent that is killed while the server starts never reads the address.
func TestTheKeeperCleansUpWhenNobodyReads(t *testing.T) {
	programtest.NeedRedis(t)
	keeper := programtest.Command(t, redisserver.KeeperRole)
	dir := t.TempDir()
	keeper.Env = append(os.Environ(), "TMPDIR="+dir)
	keeper.Stdin = strings.NewReader("[]\n")
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	defer writer.Close()
	keeper.Stdout = writer
	require.NoError(t, keeper.Run())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
