package reserve_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// What the other tests rest on: Redis, real or not, has the time of the bubble, to
// the microsecond. On a real one, limiters have no more than the documented rights.
func TestRedisOfTheBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		random := rand.New(rand.NewPCG(5, 5))
		ctx := t.Context()
		for range 300 {
			time.Sleep(time.Duration(random.Int64N(1 << random.IntN(50))))
			now := time.Now().Truncate(time.Microsecond)
			got, err := b.admin().Time(ctx).Result()
			require.NoError(t, err)
			require.True(t, now.Equal(got), "%v, Redis: %v", now, got)
			seconds, err := b.admin().Eval(ctx, "return tonumber(redis.call('TIME')[1])", nil).Int64()
			require.NoError(t, err)
			require.Equal(t, now.Unix(), seconds)
			require.Equal(t, now, time.Now().Truncate(time.Microsecond), "no time passes while Redis works")
		}
		err := b.client().Get(ctx, "other").Err()
		if wantsRealRedis() {
			require.ErrorContains(t, err, "NOPERM")
		} else {
			require.ErrorIs(t, err, redis.Nil, "miniredis has no users")
		}
	})
}
