package lua

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// fullRedis is a line in a Redis whose memory is full when it is told to be.
type fullRedis struct {
	t       *testing.T
	client  *redis.Client
	keys    []string
	scripts map[string]*redis.Script
}

// hour is an interval in which nothing falls due while a test runs.
var hour = time.Hour.Microseconds()

func (f *fullRedis) call(verb string, args ...any) error {
	return f.scripts[verb].Run(context.Background(), f.client, f.keys, args...).Err()
}

func (f *fullRedis) must(verb string, args ...any) {
	f.t.Helper()
	require.NoError(f.t, f.call(verb, args...))
}

func (f *fullRedis) redis(args ...any) {
	f.t.Helper()
	require.NoError(f.t, f.client.Do(context.Background(), args...).Err())
}

func (f *fullRedis) full(yes bool) {
	f.t.Helper()
	f.redis("CONFIG", "SET", "maxmemory", map[bool]int{true: 1}[yes])
}

// contents are the bytes of all keys, and whether they expire.
func (f *fullRedis) contents() string {
	f.t.Helper()
	ctx := context.Background()
	var b strings.Builder
	for _, key := range f.keys {
		bytes, err := f.client.Dump(ctx, key).Result()
		if !errors.Is(err, redis.Nil) {
			require.NoError(f.t, err)
		}
		left, err := f.client.PTTL(ctx, key).Result()
		require.NoError(f.t, err)
		fmt.Fprintf(&b, "%s %q, expires: %v\n", key, bytes, left > 0)
	}
	return b.String()
}

// fullStates are what the keys hold when Redis is full, by what is special in it.
var fullStates = []struct {
	name  string
	build func(f *fullRedis)
}{
	{"fresh", func(*fullRedis) {}},
	{"fresh, with lists that outlived their state", func(f *fullRedis) {
		f.must("take", hour, 1, -hour, 0, 0, 0, "a", 1, 1e6, 1, -1, "now", 1, 1, -1, "own", 1, 1, -1, "given", 1, 1, -1, "last", 1)
		f.must("cancel", hour, 1, 0, 0, 0, 0, "a", 2, 1, "given", 0, 0)
		f.redis("DEL", f.keys[0])
	}},
	{"nothing waits", func(f *fullRedis) {
		f.must("take", hour, 2, -2*hour, 0, 0, 0, "a", 1, 1e6, 1, -1, "now", 0)
	}},
	{"waiting", func(f *fullRedis) {
		f.must("take", hour, 1, -hour, 0, 0, 0, "a", 1, 1e6, 1, -1, "now", 0, 1, -1, "own", 0, 1, -1, "other", 0)
	}},
	{"free", func(f *fullRedis) {
		f.must("take", hour, 1, -hour, 0, 0, 0, "a", 1, 1e6, 1, -1, "now", 0, 1, -1, "given", 0, 1, -1, "own", 0)
		f.must("cancel", hour, 1, 0, 0, 0, 0, "a", 2, 1, "given", 0, 0)
	}},
	{"claimed", func(f *fullRedis) {
		f.must("take", hour, 1, -hour, 0, 0, 0, "a", 1, 1e6, 1, -1, "now", 1, 1, -1, "own", 1)
		f.must("claim", hour, 1, 0, 0, 0, 0, "a", 2, 1e12, 1, "own")
	}},
	{"dead numbers", func(f *fullRedis) {
		f.must("take", hour, 1, -hour, 0, 0, 0, "a", 1, 1e6, 1, -1, "now", 0, 1, -1, "dead", 0, 1, -1, "given", 0, 1, -1, "own", 0)
		f.must("cancel", hour, 1, 0, 0, 0, 0, "a", 2, 1, "given", 0, 0)
		f.redis("HSET", f.keys[0], "final", 3, "floor", 3) // what stood before was passed
		f.redis("ZADD", f.keys[3], 1, "1:passed")
	}},
	{"processes that are gone", func(f *fullRedis) {
		f.must("take", hour, 1, -hour, 0, 0, 0, "a", 1, 1e6, 1, -1, "now", 0, 1, -1, "own", 0)
		f.redis("HSET", f.keys[0], "countedMicros", 1, "m:gone", "1 1 ")
	}},
	{"another rate, after a long time", func(f *fullRedis) {
		f.must("take", 1, 1, -1, 0, 0, 0, "a", 1, -1, 1, -1, "own", 0, 1, -1, "given", 0)
		f.must("cancel", 1, 1, 0, 0, 0, 0, "a", 2, 1, "given", 0, 0)
	}},
}

// fullCalls are made on each of them. The process a has made call 2 before.
var fullCalls = []struct {
	verb string
	args []any
}{
	{"take", []any{0, 0, 0, 0, "", 0, 1e6, 1, -1, "new", 0}},
	{"take", []any{0, 0, 0, 0, "b", 1, 1e6, 1, -1, "new", 0}},
	{"take", []any{0, 0, 0, 0, "b", 1, 1e12, 1, -1, "new", 0, 1, -1, "newer", 1}},
	{"take", []any{0, 0, 0, 0, "b", 1, 1e6, 1, 0, "refused", 0}},
	{"take", []any{0, 0, 0, 0, "b", 1, -1, 1, -1, "own", 1}},
	{"take", []any{0, 0, 0, 0, "a", 2, 1e6, 1, -1, "own", 0}},
	{"claim", []any{0, 0, 0, 0, "b", 1, 1e12, 1, "own"}},
	{"claim", []any{0, 0, 0, 0, "b", 1, 1e12, 1, "new"}},
	{"claim", []any{0, 0, 0, 0, "b", 1, 1e6, 1, "dead"}},
	{"claim", []any{0, 0, 0, 0, "a", 2, 1e6, 1, "own"}},
	{"cancel", []any{0, 0, 0, 0, "a", 3, 1, "own", 0, 0}},
	{"cancel", []any{0, 0, 0, 0, "a", 3, 1, "own", 0, 1}},
	{"cancel", []any{0, 0, 0, 0, "", 0, 1, "nobody", 0, 0}},
	{"cancel", []any{0, 0, 0, 0, "a", 3, 1, "", 1, 1}},
	{"charge", []any{0, 0, 0, 0, "a", 3, 3, 3, 0, 0, 0, 3}},
	{"charge", []any{0, 0, 0, 0, "a", 2, 0, 0, 0, 0, 1e6, 0}},
	{"charge", []any{0, 0, 0, 0, "", 0, 0, 0, 0, 0, 0, 0}},
}

// TestFullRedis shows that a Redis that has no memory left refuses each script as
// a whole. Redis looks at that before a script's first write only, and not if that
// one removes something.
func TestFullRedis(t *testing.T) {
	server := redistest.Local(t, "--maxmemory-policy", "noeviction")
	client := patient(t, server)
	for _, state := range fullStates {
		t.Run(state.name, func(t *testing.T) {
			require.Empty(t, callAllWhenFull(t, client, trueSources(), state.build))
		})
	}

	// The test of the test.
	changed := 0
	careless := trueSources().with(t, "line", "redis.call('HSET', STATE, 'tail', s.tail)", "")
	for _, state := range fullStates {
		changed += len(callAllWhenFull(t, client, careless, state.build))
	}
	require.Greater(t, changed, 3, "calls that changed something because their first write removes something")
}

// callAllWhenFull returns the calls that were not refused, or changed something.
func callAllWhenFull(t *testing.T, client *redis.Client, s sources, build func(*fullRedis)) []string {
	t.Helper()
	var wrong []string
	for _, c := range fullCalls {
		f := &fullRedis{t: t, client: client, keys: Keys(redistest.Prefix(t), "n", ""), scripts: map[string]*redis.Script{
			"take": redis.NewScript(s.line + s.take), "claim": redis.NewScript(s.line + s.claim),
			"cancel": redis.NewScript(s.line + s.cancel), "charge": redis.NewScript(s.line + s.charge),
			"inspect": redis.NewScript(s.line + s.inspect),
		}}
		build(f)
		before := f.contents()
		state, err := client.Exists(context.Background(), f.keys[0]).Result()
		require.NoError(t, err)

		f.full(true)
		err = f.call(c.verb, append([]any{hour, 1}, c.args...)...)
		inspected := f.call("inspect", hour, 1)
		f.full(false)

		require.NoError(t, inspected, "who only looks is not refused")
		// Without a state there is nothing to cancel, and so nothing to write.
		refused := err != nil && strings.Contains(err.Error(), "OOM") || c.verb == "cancel" && state == 0 && err == nil
		if after := f.contents(); !refused || after != before {
			wrong = append(wrong, fmt.Sprintf("%s %v: %v\n%sbecame\n%s", c.verb, c.args, err, before, after))
		}
		f.redis("UNLINK", f.keys[0], f.keys[1], f.keys[2], f.keys[3])
	}
	return wrong
}
