package integration

import (
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// The server's data is deleted.
func flushAll(s *faultScene) {
	s.onServer(func(client *redis.Client) {
		require.NoError(s, client.FlushAll(s.Context()).Err())
	})
	s.close(faultVerdict{lossy: true})
}

// The keys of the limit are deleted, or evicted.
func keyDeleted(s *faultScene) {
	s.onServer(func(client *redis.Client) {
		keys, err := client.Keys(s.Context(), s.job.Prefix+":{api}:*").Result()
		require.NoError(s, err)
		require.NotEmpty(s, keys)
		require.NoError(s, client.Del(s.Context(), keys...).Err())
	})
	s.close(faultVerdict{lossy: true})
}

// The server forgets the scripts.
func scriptFlush(s *faultScene) {
	s.onServer(func(client *redis.Client) {
		require.NoError(s, client.ScriptFlush(s.Context()).Err())
	})
	s.close(faultVerdict{})
}

// The server's memory is full for a while, and it evicts nothing.
func outOfMemory(s *faultScene) {
	const room, full = 16 << 20, 1 << 20
	s.onServer(func(client *redis.Client) {
		ctx := s.Context()
		require.NoError(s, client.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err())
		filler := s.job.Prefix + ":filler"
		require.NoError(s, client.Set(ctx, filler, make([]byte, room), 0).Err())
		// The memory of connections varies, so the limit is clearly below.
		require.NoError(s, client.ConfigSet(ctx, "maxmemory", "8mb").Err())
		require.ErrorContains(s, client.Set(ctx, filler+"2", make([]byte, full), 0).Err(), "OOM")
		s.untilAlone(faultWorkers)
		require.NoError(s, client.Del(ctx, filler).Err())
	})
	s.close(faultVerdict{})
}

// onServer is a scene on one server, to which the fault happens.
func (s *faultScene) onServer(happens func(*redis.Client)) {
	s.Helper()
	client := s.single().Client(s)
	s.load()
	s.fault(func() { happens(client) })
}
