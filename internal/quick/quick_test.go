package quick_test

import (
	"context"
	"net"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/quick"
)

func client(t *testing.T, dial func() (net.Conn, error)) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) { return dial() }, MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Scripts reply, write and fail as in miniredis, the second time, too.
func TestScriptsRunAsInMiniredis(t *testing.T) {
	r, err := quick.New()
	require.NoError(t, err)
	t.Cleanup(r.Close)
	usual := miniredis.NewMiniRedis()
	t.Cleanup(usual.Close)
	for _, text := range []string{
		"return {KEYS[1], ARGV[1], #KEYS, #ARGV, false, true, 3.7, {'a', {}}}",
		"return redis.call('HSET', KEYS[1], 'a', 1, 'b', ARGV[1])",
		"return redis.call('HMGET', KEYS[1], 'a', 'none', 'b')",
		"return redis.call('HGET', KEYS[1], 'none')",
		"return redis.call('ZADD', 'z', 1.5, 'a', 12345678901234, 'b')",
		"return redis.call('ZRANGE', 'z', 0, -1, 'WITHSCORES')",
		"return redis.call('SET', 'text', 'x')",
		"return redis.pcall('HGET', 'text', 'a')",
		"return redis.call('HGET', 'text', 'a')",
		"return redis.pcall('HGET', 'text', 'a').err",
		"return redis.error_reply('BADSTATE it is so')",
		"return #redis.call('TIME')",
		"return string.format('%.0f', math.floor(2.5))",
		"return unpack({})",
		"return",
		"error('a mistake')",
		"a b",
	} {
		want, got := redis.NewScript(text), redis.NewScript(text)
		for range 2 {
			expected, failure := want.Run(t.Context(), client(t, usual.Dial), []string{"k"}, "v").Result()
			reply, err := got.Run(t.Context(), client(t, r.Dial), []string{"k"}, "v").Result()
			require.Equal(t, failure, err, text)
			require.Equal(t, expected, reply, text)
		}
	}
	loaded := redis.NewScript("return redis.call('HLEN', KEYS[1])")
	require.NoError(t, loaded.Load(t.Context(), client(t, r.Dial)).Err())
	n, err := loaded.EvalSha(t.Context(), client(t, r.Dial), []string{"k"}).Int()
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, usual.Dump(), r.Dump())
}

// Redis refuses scripts while it has an error, and from clients without its password.
func TestRefusals(t *testing.T) {
	r, err := quick.New()
	require.NoError(t, err)
	t.Cleanup(r.Close)
	c, script := client(t, r.Dial), redis.NewScript("return 1")
	require.NoError(t, script.Run(t.Context(), c, nil).Err())
	r.SetError("LOADING")
	require.ErrorContains(t, script.Run(t.Context(), c, nil).Err(), "LOADING")
	require.ErrorContains(t, c.Ping(t.Context()).Err(), "LOADING")
	r.SetError("")
	require.NoError(t, script.Run(t.Context(), c, nil).Err())
	r.RequireAuth("secret")
	require.ErrorContains(t, script.Run(t.Context(), client(t, r.Dial), nil).Err(), "NOAUTH")
}
