package integration

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// refuses waits until the server refuses with the code.
func refuses(t *testing.T, client *redis.Client, code string) {
	require.Eventually(t, func() bool {
		err := client.Get(t.Context(), "any").Err()
		return err != nil && strings.HasPrefix(err.Error(), code)
	}, liveness, time.Millisecond)
}

// setting changes a setting of the server.
func setting(name, value string) spoiler {
	return func(t *testing.T, admin *redis.Client, _ *redis.Options) func() error {
		before, err := admin.ConfigGet(t.Context(), name).Result()
		require.NoError(t, err)
		require.NoError(t, admin.ConfigSet(t.Context(), name, value).Err())
		return func() error { return admin.ConfigSet(context.Background(), name, before[name]).Err() }
	}
}

// user makes the client connect as a user with these rules.
func user(rules ...any) spoiler {
	return func(t *testing.T, admin *redis.Client, options *redis.Options) func() error {
		require.NoError(t, admin.Do(t.Context(), append([]any{"acl", "setuser", "worker", "on", ">secret"}, rules...)...).Err())
		options.Username, options.Password = "worker", "secret"
		return func() error { return nil }
	}
}

func wrongPassword(t *testing.T, admin *redis.Client, options *redis.Options) func() error {
	restore := user("~*", "+@all")(t, admin, options)
	options.Password = "wrong"
	return restore
}

func replica(t *testing.T, admin *redis.Client, _ *redis.Options) func() error {
	require.NoError(t, admin.Do(t.Context(), "replicaof", "127.0.0.1", redistest.Port(t)).Err())
	return func() error { return admin.Do(context.Background(), "replicaof", "no", "one").Err() }
}

// otherType replaces the key by one of another type for a while.
func otherType(t *testing.T, admin *redis.Client, _ *redis.Options) func() error {
	ctx := context.Background()
	require.NoError(t, admin.Rename(ctx, stateKey, "away").Err())
	require.NoError(t, admin.Set(ctx, stateKey, "mine", 0).Err())
	return func() error {
		value, err := admin.Get(ctx, stateKey).Result()
		require.Equal(t, "mine", value)
		return errors.Join(err, admin.Rename(ctx, "away", stateKey).Err())
	}
}

// unsaved makes the server fail to save its data: a directory is in the place of the file.
func unsaved(t *testing.T, admin *redis.Client, _ *redis.Options) func() error {
	config, err := admin.ConfigGet(t.Context(), "dir").Result()
	require.NoError(t, err)
	obstacle := filepath.Join(config["dir"], "dump.rdb")
	require.NoError(t, os.Mkdir(obstacle, 0o700))
	require.NoError(t, admin.BgSave(t.Context()).Err())
	require.Eventually(t, func() bool {
		info, err := admin.Info(t.Context(), "persistence").Result()
		return err == nil && strings.Contains(info, "rdb_last_bgsave_status:err")
	}, liveness, 10*time.Millisecond)
	return func() error { return os.Remove(obstacle) }
}

func busy(t *testing.T, admin *redis.Client, options *redis.Options) func() error {
	client := patient(options)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = client.Eval(context.Background(), "while true do end", nil)
	}()
	refuses(t, admin, "BUSY")
	return func() error {
		err := admin.ScriptKill(context.Background()).Err()
		<-ended
		return errors.Join(err, client.Close())
	}
}

// patient is a client that waits for a reply without a time limit.
func patient(options *redis.Options) *redis.Client {
	theirs := *options
	theirs.ReadTimeout, theirs.MaxRetries = -1, -1
	return redis.NewClient(&theirs)
}

// loading makes the server read its data again, slowly.
func loading(t *testing.T, admin *redis.Client, options *redis.Options) func() error {
	const fill = "for i = 1, 2000 do redis.call('set', 'filler' .. i, string.rep('x', 2000)) end return 1"
	const empty = "for i = 1, 2000 do redis.call('del', 'filler' .. i) end return 1"
	require.NoError(t, admin.Eval(t.Context(), fill, nil).Err())
	require.NoError(t, admin.ConfigSet(t.Context(), "key-load-delay", "50000").Err())
	client := patient(options)
	ended := make(chan error)
	go func() { ended <- client.Do(context.Background(), "debug", "reload").Err() }()
	refuses(t, admin, "LOADING")
	return func() error {
		err := admin.ConfigSet(context.Background(), "key-load-delay", "0").Err()
		return errors.Join(err, <-ended, client.Close(), admin.Eval(context.Background(), empty, nil).Err())
	}
}
