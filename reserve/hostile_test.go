package reserve_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// hostile are keys and IDs that mean something to somebody: to hash tags, to the
// wire, to scripts and shells, to patterns, or to the fields and lists of a line.
var hostile = []string{
	"{", "}", "{}", "{other}", "}{", "a}:line", "{api}:line",
	"\n", "\r\nFLUSHALL\r\n", "*1\r\n$8\r\nFLUSHALL\r\n", "\x00", "a\x00b", "\xff\xfe", "ünïcødé",
	"'; return 1 --", "]]", "\\", `"`, "$(id)", "%s%d%n", "redis.call('FLUSHALL')", "ARGV[1]", "nil", "NaN", "inf", "-inf", "1e99", "0x10",
	"*", "?", "[a-z]", "(1", "+", "-", " ", "a b",
	"m:", "m:dead", "tail", "epoch", "1:", ":1", "1:a", "2:1:a", "9007199254740993", "-1",
	"line", "waiting", "free", "claimed", "line:a", ":",
}

const longestKey, longestID = 512, 256

// Whatever a key holds, it has a line of its own, in its own four keys of Redis,
// in the slot of the limit's name; no other key's line notices.
func TestHostileKeysOnAllVerbs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.Every(time.Hour))
		ctx := t.Context()
		keys := append([]string{strings.Repeat("{", longestKey), strings.Repeat("\x00", longestKey)}, hostile...)
		all, want := make(map[string]bool), make(map[string]bool)
		for _, key := range keys {
			for i, name := range lua.Keys(reserve.DefaultPrefix, "api", key) {
				require.True(t, strings.HasPrefix(name, reserve.DefaultPrefix+":{api}:"), "the name is the hash tag")
				require.False(t, all[name], "%q has keys of its own", key)
				all[name] = true
				if i < 2 || i == 3 { // in the end one waits, and one has its turn; nothing is free
					want[name] = true
				}
			}
		}
		for _, key := range keys {
			l := l.For(key)
			ok, err := l.Allow(ctx)
			require.NoError(t, err, "%q", key)
			require.True(t, ok, "%q: nobody else took its turn", key)
			exercise(t, l, "id")
		}
		for _, key := range keys {
			s, err := l.For(key).State(ctx)
			require.NoError(t, err)
			require.Equal(t, int64(1), s.Waiting, "%q", key)
			require.Zero(t, s.Free, "%q", key)
			ok, err := l.For(key).Allow(ctx)
			require.NoError(t, err)
			require.False(t, ok, "%q is remembered", key)
		}
		got := make(map[string]bool)
		for _, key := range b.redis.Keys() {
			got[key] = true
		}
		require.Equal(t, want, got)
	})
}

// Whatever an ID holds, it names one turn on all verbs, and no other ID's.
func TestHostileIDsOnAllVerbs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.Every(time.Hour))
		ctx := t.Context()
		require.NoError(t, l.Wait(ctx))
		ids := append([]string{strings.Repeat("m", longestID), strings.Repeat("\n", longestID)}, hostile...)
		for _, id := range ids {
			exercise(t, l, id) // one of each waits in the end
		}
		numbers := make(map[int64]string)
		for i, id := range ids {
			r, err := l.ReserveAs(ctx, id, 1)
			require.NoError(t, err, "%q", id)
			require.Empty(t, numbers[r.Number()], "%q names a turn of its own", id)
			numbers[r.Number()] = id
			require.Equal(t, int64(i+2), r.Number(), "%q kept its place", id)
		}
		s, err := l.State(ctx)
		require.NoError(t, err)
		require.Equal(t, int64(len(ids)), s.Waiting)
		require.ElementsMatch(t, append(lua.Keys(reserve.DefaultPrefix, "api", "")[:2], lua.Keys(reserve.DefaultPrefix, "api", "")[3]),
			b.redis.Keys(), "the state, those that wait, and who has its turn")
	})
}

// exercise takes a turn under an ID with each verb. In the end it waits.
func exercise(t *testing.T, l *reserve.Limiter, id string) {
	t.Helper()
	ctx := t.Context()
	r, err := l.ReserveAs(ctx, id, 1)
	require.NoError(t, err, "%q", id)
	number := r.Number()
	for verb, call := range map[string]func() (*reserve.Reservation, error){
		"reserve": func() (*reserve.Reservation, error) { return l.ReserveAs(ctx, id, 1) },
		"claim":   func() (*reserve.Reservation, error) { return l.Claim(ctx, id, 1) },
		"enter":   func() (*reserve.Reservation, error) { return l.Enter(ctx, id, 1) },
		"line up": func() (*reserve.Reservation, error) {
			p := l.LineUp(ctx, []reserve.Request{{ID: id, N: 1}})[0]
			return p.Reservation, p.Err
		},
	} {
		same, err := call()
		require.NoError(t, err, "%s %q", verb, id)
		require.Equal(t, number, same.Number(), "%s %q", verb, id)
		require.Equal(t, id, same.ID())
	}
	stays, err := l.Leave(ctx, id, 1)
	require.NoError(t, err)
	require.True(t, stays, "%q", id)
	went, err := l.Cancel(ctx, id, 1)
	require.NoError(t, err)
	require.True(t, went, "%q", id)
	went, err = l.Cancel(ctx, id, 1)
	require.NoError(t, err)
	require.False(t, went, "%q goes back once", id)
	again, err := l.Enter(ctx, id, 1)
	require.NoError(t, err)
	require.Equal(t, number, again.Number(), "%q: its number was free", id)
}

// Everything that a user gives has a longest length, on every verb, and Redis
// hears nothing of what is longer. The longest itself is fine.
func TestLengthBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		client := b.client()
		ctx := t.Context()
		config := reserve.Config{
			Name: strings.Repeat("n", 128), Prefix: reserve.DefaultPrefix + strings.Repeat(":", 128-len(reserve.DefaultPrefix)),
			Limit: reserve.Every(time.Hour),
		}
		l, err := reserve.New(client, config)
		require.NoError(t, err)
		defer func() { _ = l.Close() }()
		long, longKey := strings.Repeat("i", longestID+1), strings.Repeat("k", longestKey+1)
		for name, change := range map[string]func(*reserve.Config){
			"Config.Name":   func(c *reserve.Config) { c.Name += "n" },
			"Config.Prefix": func(c *reserve.Config) { c.Prefix += ":" },
		} {
			c := config
			change(&c)
			_, err := reserve.New(client, c)
			require.ErrorIs(t, err, reserve.ErrInvalid)
			require.ErrorContains(t, err, name)
		}
		verbs := map[string]func(l *reserve.Limiter, id string) error{
			"reserve": func(l *reserve.Limiter, id string) error { _, err := l.ReserveAs(ctx, id, 1); return err },
			"claim":   func(l *reserve.Limiter, id string) error { _, err := l.Claim(ctx, id, 1); return err },
			"enter":   func(l *reserve.Limiter, id string) error { _, err := l.Enter(ctx, id, 1); return err },
			"leave":   func(l *reserve.Limiter, id string) error { _, err := l.Leave(ctx, id, 1); return err },
			"cancel":  func(l *reserve.Limiter, id string) error { _, err := l.Cancel(ctx, id, 1); return err },
			"line up": func(l *reserve.Limiter, id string) error {
				return l.LineUp(ctx, []reserve.Request{{ID: id, N: 1}})[0].Err
			},
		}
		for verb, call := range verbs {
			require.ErrorIs(t, call(l, long), reserve.ErrInvalid, verb)
			require.ErrorIs(t, call(l, ""), reserve.ErrInvalid, verb)
			require.ErrorIs(t, call(l.For(longKey), "id"), reserve.ErrInvalid, verb)
			require.ErrorIs(t, call(l.For(""), "id"), reserve.ErrInvalid, verb)
		}
		for verb, call := range map[string]func(l *reserve.Limiter) error{
			"wait":    func(l *reserve.Limiter) error { return l.Wait(ctx) },
			"allow":   func(l *reserve.Limiter) error { _, err := l.Allow(ctx); return err },
			"reserve": func(l *reserve.Limiter) error { _, err := l.Reserve(ctx); return err },
			"state":   func(l *reserve.Limiter) error { _, err := l.State(ctx); return err },
		} {
			require.ErrorIs(t, call(l.For(longKey)), reserve.ErrInvalid, verb)
			require.ErrorIs(t, call(l.For("")), reserve.ErrInvalid, verb)
		}
		require.Empty(t, b.redis.Keys())

		longest := l.For(longKey[1:])
		exercise(t, longest, long[1:])
		for verb, call := range verbs {
			require.NoError(t, call(longest, long[1:]), verb)
		}
	})
}

// What is said of a hostile key or ID can be read: it is quoted.
func TestHostileKeysInErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.PerSecond(1))
		for _, key := range hostile {
			_, err := l.For(key).ReserveN(t.Context(), 2)
			require.ErrorIs(t, err, reserve.ErrExceedsBurst)
			require.ErrorContains(t, err, fmt.Sprintf("%q", "api/"+key))
			require.NotContains(t, err.Error(), "\n")
			require.NotContains(t, err.Error(), "\x00")
		}
	})
}
