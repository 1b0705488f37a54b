package limits_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fleetpace/fleetpace/limits"
	"github.com/fleetpace/fleetpace/reserve"
)

// Every test of this package must end without a goroutine left behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const file = "limits.yaml"

// here makes a directory of the test's own the current one, so that errors name the file
// as it is written here.
func here(t testing.TB, text string) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, text)
}

// write replaces the file as a whole.
func write(t testing.TB, text string) {
	t.Helper()
	next := filepath.Join(filepath.Dir(file), ".next")
	require.NoError(t, os.WriteFile(next, []byte(text), 0o600))
	require.NoError(t, os.Rename(next, file))
}

// unused is a client that nobody listens to: what is tested with it asks nothing of Redis.
func unused(t testing.TB) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// load makes the set of the file.
func load(t testing.TB, defaults reserve.Config) *limits.Set {
	t.Helper()
	set, err := limits.Load(unused(t), file, defaults)
	require.NoError(t, err)
	t.Cleanup(func() { _ = set.Close() })
	return set
}

// get is the limiter of a name that the file has.
func get(t testing.TB, set *limits.Set, name string) *reserve.Limiter {
	t.Helper()
	limiter, err := set.Get(name)
	require.NoError(t, err)
	return limiter
}
