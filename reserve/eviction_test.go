package reserve

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// One warning, exactly when keys may be evicted.
func TestWarnOfEviction(t *testing.T) {
	server := redistest.Local(t, "--maxmemory", "100mb")
	admin := server.Client(t)
	ctx := t.Context()
	warned := func(client redis.UniversalClient) string {
		var log bytes.Buffer
		l, err := New(client, Config{Name: "api", Limit: PerSecond(1), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		defer func() { _ = l.Close() }()
		l.core.warnOfEviction(ctx)
		return log.String()
	}
	for _, policy := range []string{"allkeys-lru", "allkeys-random", "volatile-lru", "volatile-ttl"} {
		require.NoError(t, admin.ConfigSet(ctx, "maxmemory-policy", policy).Err())
		line := warned(admin)
		require.Equal(t, 1, bytes.Count([]byte(line), []byte("\n")), line)
		for _, part := range []string{"level=WARN", "limit=api", "maxmemory-policy=" + policy, "noeviction"} {
			require.Contains(t, line, part)
		}
	}

	require.NoError(t, admin.ConfigSet(ctx, "maxmemory", "0").Err())
	require.Empty(t, warned(admin), "there is no bound")
	require.NoError(t, admin.ConfigSet(ctx, "maxmemory", "100mb").Err())
	require.NotEmpty(t, warned(admin))
	require.NoError(t, admin.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err())
	require.Empty(t, warned(admin))

	require.NoError(t, admin.ConfigSet(ctx, "maxmemory-policy", "allkeys-lru").Err())
	require.NoError(t, admin.Do(ctx, "acl", "setuser", "limited", "on", ">pw", "~*", "+@all", "-info").Err())
	options := *admin.Options()
	options.Username, options.Password = "limited", "pw"
	limited := redis.NewClient(&options)
	defer func() { _ = limited.Close() }()
	require.Empty(t, warned(limited), "it may not ask")
	require.NoError(t, limited.Close())
	require.Empty(t, warned(limited), "it can not ask")
	mini := redistest.Mini(t)
	require.Empty(t, warned(mini.Client(t)), "it does not say")
}

// It is looked once, when Redis has answered for the first time.
func TestLooksForEvictionOnce(t *testing.T) {
	server := redistest.Local(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	var log bytes.Buffer
	l, err := New(server.Client(t), Config{Name: "api", Limit: PerSecond(1000), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, l.Wait(t.Context()))
	}
	l.core.busy.Wait()
	require.NoError(t, l.Close())
	require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("noeviction")), log.String())
}
