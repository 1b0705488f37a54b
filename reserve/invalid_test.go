package reserve_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// Bad input gets an error that names the field and the value, asks Redis for
// nothing and changes nothing.
func TestBadInput(t *testing.T) {
	asked := 0
	client := redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) {
		asked++
		return nil, errors.New("Redis is asked")
	}})
	t.Cleanup(func() { _ = client.Close() })
	ctx := t.Context()

	newWith := func(change func(*reserve.Config)) func() error {
		return func() error {
			config := reserve.Config{Name: "api", Limit: reserve.PerSecond(1)}
			change(&config)
			_, err := reserve.New(client, config)
			return err
		}
	}
	limit := func(l reserve.Limit) func() error {
		return newWith(func(c *reserve.Config) { c.Limit = l })
	}
	parse := func(text string) func() error {
		return func() error { _, err := reserve.ParseLimit(text); return err }
	}
	good, err := reserve.New(client, reserve.Config{Name: "api", Limit: reserve.PerSecond(1).Burst(5)})
	require.NoError(t, err)
	call := func(f func(l *reserve.Limiter) error) func() error {
		return func() error { return f(good) }
	}
	withKey := func(key string) func() error {
		return func() error { return good.For(key).Wait(ctx) }
	}

	all := func(l *reserve.Limiter) *reserve.Joint { return joint(t, l) }
	var none context.Context

	cases := []struct {
		name string
		do   func() error
		says []string // what the error must name
	}{
		{"no client", func() error { _, err := reserve.New(nil, reserve.Config{}); return err }, []string{"client", "nil"}},
		{"nil client", func() error { _, err := reserve.New((*redis.Client)(nil), reserve.Config{}); return err }, []string{"client", "nil"}},
		{"ring", func() error {
			ring := redis.NewRing(&redis.RingOptions{})
			defer func() { _ = ring.Close() }()
			_, err := reserve.New(ring, reserve.Config{Name: "api", Limit: reserve.PerSecond(1)})
			return err
		}, []string{"Ring", "Sentinel or Cluster"}},
		{"empty config", func() error { _, err := reserve.New(client, reserve.Config{}); return err }, []string{"Config.Name"}},
		{"no name", newWith(func(c *reserve.Config) { c.Name = "" }), []string{"Config.Name"}},
		{"long name", newWith(func(c *reserve.Config) { c.Name = strings.Repeat("n", 129) }), []string{"Config.Name", "128", "129"}},
		{"opening brace in the name", newWith(func(c *reserve.Config) { c.Name = "a{b" }), []string{"Config.Name", "a{b"}},
		{"closing brace in the name", newWith(func(c *reserve.Config) { c.Name = "a}b" }), []string{"Config.Name", "a}b"}},
		{"brace in the prefix", newWith(func(c *reserve.Config) { c.Prefix = "{x}" }), []string{"Config.Prefix", "{x}"}},
		{"long prefix", newWith(func(c *reserve.Config) { c.Prefix = strings.Repeat("p", 200) }), []string{"Config.Prefix", "200"}},
		{"colon in the name of a group", newWith(func(c *reserve.Config) { c.Name, c.Group = "a:b", "g" }), []string{"Config.Name", "a:b"}},
		{"brace in the group", newWith(func(c *reserve.Config) { c.Group = "{g" }), []string{"Config.Group", "{g"}},
		{"negative prefetch", newWith(func(c *reserve.Config) { c.Prefetch = -time.Second }), []string{"Config.Prefetch", "-1s"}},
		{"long prefetch", newWith(func(c *reserve.Config) { c.Prefetch = time.Hour }), []string{"Config.Prefetch", "1h"}},
		{"prefetch of a quota", newWith(func(c *reserve.Config) { c.Prefetch, c.Limit = time.Second, reserve.Quota(1, reserve.CalendarDay) }), []string{"Config.Prefetch", "quota"}},
		{"prefetch that settles", newWith(func(c *reserve.Config) { c.Prefetch, c.Settles = time.Second, true }), []string{"Config.Prefetch", "Config.Settles"}},
		{"negative longest pause", newWith(func(c *reserve.Config) { c.MaxPause = -1 }), []string{"Config.MaxPause", "-1ns"}},
		{"policy", newWith(func(c *reserve.Config) { c.Outage.Policy = "pray" }), []string{"Config.Outage.Policy", "pray"}},
		{"safety", newWith(func(c *reserve.Config) { c.Outage.Safety = 1.1 }), []string{"Config.Outage.Safety", "1.1"}},
		{"share", newWith(func(c *reserve.Config) { c.Outage.FallbackFraction = math.NaN() }), []string{"Config.Outage.FallbackFraction", "NaN"}},
		{"failures", newWith(func(c *reserve.Config) { c.Outage.Failures = -1 }), []string{"Config.Outage.Failures", "-1"}},
		{"probe", newWith(func(c *reserve.Config) { c.Outage.Probe = time.Hour }), []string{"Config.Outage.Probe", "1h"}},
		{"no limit", limit(reserve.Limit{}), []string{"Limit", "not set"}},

		{"rate 0", limit(reserve.PerSecond(0)), []string{"rate", "got 0"}},
		{"rate -0", limit(reserve.PerSecond(math.Copysign(0, -1))), []string{"rate", "0"}},
		{"rate below 0", limit(reserve.PerSecond(-3)), []string{"rate", "-3"}},
		{"rate NaN", limit(reserve.PerSecond(math.NaN())), []string{"rate", "NaN"}},
		{"rate Inf", limit(reserve.PerMinute(math.Inf(1))), []string{"rate", "Inf"}},
		{"rate -Inf", limit(reserve.PerHour(math.Inf(-1))), []string{"rate", "-Inf"}},
		{"rate too high", limit(reserve.PerSecond(1e6 + 1)), []string{"rate", "1000000"}},
		{"rate far too high", limit(reserve.PerDay(math.MaxFloat64)), []string{"rate"}},
		{"rate too low", limit(reserve.PerDay(1e-300)), []string{"31 years"}},
		{"smallest rate", limit(reserve.PerDay(math.SmallestNonzeroFloat64)), []string{"31 years"}},
		{"burst 0", limit(reserve.PerSecond(1).Burst(0)), []string{"burst", "got 0"}},
		{"burst below 0", limit(reserve.PerSecond(1).Burst(-7)), []string{"burst", "-7"}},
		{"least burst", limit(reserve.PerSecond(1).Burst(math.MinInt)), []string{"burst", "-9223372036854775808"}},
		{"burst too high", limit(reserve.PerSecond(1e6).Burst(1e9 + 1)), []string{"burst", "1000000001"}},
		{"most burst", limit(reserve.PerSecond(1e6).Burst(math.MaxInt)), []string{"burst", "9223372036854775807"}},
		{"burst that never fills", limit(reserve.PerDay(1).Burst(1e6)), []string{"1000000", "31 years"}},
		{"every 0", limit(reserve.Every(0)), []string{"period", "0s"}},
		{"every below 0", limit(reserve.Every(-time.Second)), []string{"period", "-1s"}},
		{"every nanosecond", limit(reserve.Every(1)), []string{"period", "1ns"}},
		{"every odd nanosecond", limit(reserve.Every(1500)), []string{"period", "1.5µs"}},
		{"every 200 years", limit(reserve.Every(200 * 365 * 24 * time.Hour)), []string{"31 years"}},

		{"text empty", parse(""), []string{`""`, "100/s"}},
		{"text blank", parse("  "), []string{"permits"}},
		{"text without a slash", parse("100"), []string{"slash", `"100"`}},
		{"text of slots", parse("3 concurrent"), []string{`slots read "3 at once"`}},
		{"text without a rate", parse("/s"), []string{"permits", `"/s"`}},
		{"text without a period", parse("100/"), []string{"period", `"100/"`}},
		{"text with an unknown period", parse("100/fortnight"), []string{"period", "fortnight"}},
		{"text with two slashes", parse("1/2/s"), []string{"period", "2/s"}},
		{"text NaN", parse("NaN/s"), []string{"NaN"}},
		{"text Inf", parse("Inf/s"), []string{"Inf"}},
		{"text hexadecimal", parse("0x10/s"), []string{"0x10"}},
		{"text underscore", parse("1_000/s"), []string{"1_000"}},
		{"text negative", parse("-1/s"), []string{"rate", "-1"}},
		{"text zero", parse("0/s"), []string{"rate", "0"}},
		{"text overflow", parse("1e999/s"), []string{"1e999"}},
		{"text too fast", parse("2000000/s"), []string{"rate", "1000000"}},
		{"text negative period", parse("1/-5s"), []string{"period", "-5s"}},
		{"text zero period", parse("1/0s"), []string{"period", "0s"}},
		{"text burst without a number", parse("1/s burst"), []string{"burst"}},
		{"text burst word", parse("1/s burst many"), []string{"burst", "many"}},
		{"text burst fraction", parse("1/s burst 1.5"), []string{"burst", "1.5"}},
		{"text burst 0", parse("1/s burst 0"), []string{"burst", "0"}},
		{"text other word", parse("1/s brust 5"), []string{"brust"}},
		{"text more words", parse("1/s burst 5 please"), []string{"please"}},
		{"unmarshal", func() error { var l reserve.Limit; return l.UnmarshalText([]byte("x/s")) }, []string{`"x"`}},
		{"marshal", func() error { _, err := reserve.PerSecond(-1).MarshalText(); return err }, []string{"-1"}},

		{"key empty", withKey(""), []string{"key", "got 0"}},
		{"key long", withKey(strings.Repeat("k", 513)), []string{"key", "513"}},
		{"n 0", call(func(l *reserve.Limiter) error { return l.WaitN(ctx, 0) }), []string{"wait", "n: must", "got 0"}},
		{"n below 0", call(func(l *reserve.Limiter) error { return l.WaitN(ctx, -1) }), []string{"n: must", "got -1"}},
		{"n above burst", call(func(l *reserve.Limiter) error { return l.WaitN(ctx, 6) }), []string{"n: must", "which is 5", "got 6"}},
		{"n huge", call(func(l *reserve.Limiter) error { return l.WaitN(ctx, math.MaxInt) }), []string{"which is 5"}},
		{"allow n 0", call(func(l *reserve.Limiter) error { _, err := l.AllowN(ctx, 0); return err }), []string{"allow", "got 0"}},
		{"allow n above burst", call(func(l *reserve.Limiter) error { _, err := l.AllowN(ctx, 6); return err }), []string{"allow", "got 6"}},
		{"reserve n 0", call(func(l *reserve.Limiter) error { _, err := l.ReserveN(ctx, 0); return err }), []string{"reserve", "got 0"}},
		{"reserve n above burst", call(func(l *reserve.Limiter) error { _, err := l.ReserveN(ctx, 6); return err }), []string{"reserve", "got 6"}},
		{"ask without id", call(func(l *reserve.Limiter) error { _, err := all(l).Ask(ctx, "", 0); return err }), []string{"ask", "id", "got 0"}},
		{"ask with a long id", call(func(l *reserve.Limiter) error {
			_, err := all(l).Ask(ctx, strings.Repeat("i", 257), 0)
			return err
		}), []string{"id", "257"}},
		{"ask n 0", call(func(l *reserve.Limiter) error { _, err := all(l).Ask(ctx, "a", 0, 0); return err }), []string{"ask", "got 0"}},
		{"ask n above burst", call(func(l *reserve.Limiter) error { _, err := all(l).Ask(ctx, "a", 0, 6); return err }), []string{"ask", "got 6"}},
		{"ask without patience", call(func(l *reserve.Limiter) error { _, err := all(l).Ask(ctx, "a", -1); return err }), []string{"patience", "-1ns"}},
		{"book without id", call(func(l *reserve.Limiter) error { return all(l).Book(ctx, []reserve.Call{{}})[0].Err }), []string{"book", "id"}},
		{"join n 0", call(func(l *reserve.Limiter) error {
			return all(l).Book(ctx, []reserve.Call{{ID: "a", Costs: []int{0}}})[0].Err
		}), []string{"book", "got 0"}},
		{"join n above burst", call(func(l *reserve.Limiter) error {
			return all(l).Book(ctx, []reserve.Call{{ID: "a", Costs: []int{6}}})[0].Err
		}), []string{"book", "got 6"}},
		{"cancel booking without id", call(func(l *reserve.Limiter) error { return all(l).CancelBooking(ctx, "") }), []string{"cancel booking", "id"}},
		{"cancel booking n above burst", call(func(l *reserve.Limiter) error { return all(l).CancelBooking(ctx, "a", 9) }), []string{"cancel booking", "got 9"}},
		{"two costs of one limit", call(func(l *reserve.Limiter) error { return all(l).Wait(ctx, 1, 1) }), []string{"costs", "1 limits, got 2"}},
		{"state of a bad key", func() error { _, err := good.For("").State(ctx); return err }, []string{"state", "key"}},
		{"all of a bad key", func() error { _, err := reserve.All(good.For("")); return err }, []string{"all", "key"}},
		{"wait without a context", call(func(l *reserve.Limiter) error { return l.Wait(none) }), []string{"wait", "ctx"}},
		{"allow without a context", call(func(l *reserve.Limiter) error { _, err := l.Allow(none); return err }), []string{"allow", "ctx"}},
		{"reserve without a context", call(func(l *reserve.Limiter) error { _, err := l.Reserve(none); return err }), []string{"reserve", "ctx"}},
		{"pause without a context", call(func(l *reserve.Limiter) error { return l.Pause(none, 1, "") }), []string{"pause", "ctx"}},
		{"state without a context", call(func(l *reserve.Limiter) error { _, err := l.State(none); return err }), []string{"state", "ctx"}},
		{"cancel booking without a context", call(func(l *reserve.Limiter) error { return all(l).CancelBooking(none, "a") }), []string{"cancel booking", "ctx"}},
	}
	require.GreaterOrEqual(t, len(cases), 60)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := c.do()
			require.ErrorIs(t, err, reserve.ErrInvalid)
			for _, part := range c.says {
				require.ErrorContains(t, err, part)
			}
			aboveBurst := strings.Contains(c.name, "above burst") || c.name == "n huge"
			require.Equal(t, aboveBurst, errors.Is(err, reserve.ErrExceedsBurst))
		})
	}
	require.Zero(t, asked, "nothing was asked")
	t.Logf("%d cases of bad input", len(cases))
}

// A cost above the burst says which limit and which cost, and what to write. In a Joint it says at
// which position. Where no burst helps it says so.
func TestCostsAboveTheBurst(t *testing.T) {
	client := redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("Redis is asked")
	}})
	t.Cleanup(func() { _ = client.Close() })
	make := func(name string, limit reserve.Limit) *reserve.Limiter {
		l, err := reserve.New(client, reserve.Config{Name: name, Group: "g", Limit: limit})
		require.NoError(t, err)
		return l
	}
	tokens := make("tokens", reserve.PerMinute(10_000))
	requests := make("requests", reserve.PerSecond(100))
	for _, c := range []struct {
		err  error
		says string
	}{
		{tokens.WaitN(t.Context(), 5000), `n: must be at most the burst of "tokens", which is 1 (10000/minute), got 5000: let the limit have .Burst(5000), or "10000/minute burst 5000" as text, or split the call`},
		{joint(t, tokens).Wait(t.Context(), 5000), `n: must be at most the burst of "tokens"`},
		{joint(t, requests, tokens).Wait(t.Context(), 1, 5000), `costs[1]: must be at most the burst of "tokens", which is 1 (10000/minute), got 5000: let the limit have .Burst(5000)`},
		{joint(t, tokens, requests).Wait(t.Context(), 5000, 1), `costs[0]: must be at most the burst of "tokens"`},
		{joint(t, requests, tokens).Wait(t.Context(), 1, 0), `costs[1]: must be at least 1, got 0`},
		{joint(t, requests, tokens).Book(t.Context(), []reserve.Call{{ID: "a", Costs: []int{1, 2}}})[0].Err, `costs[1]: must be at most the burst of "tokens"`},
		{make("day", reserve.Quota(100, reserve.CalendarDay)).WaitN(t.Context(), 500), `n: must be at most the permits of "day", which are 100 (100/day quota), got 500: split the call, or raise the limit`},
		{make("window", reserve.Rolling(100, time.Second)).WaitN(t.Context(), 500), `which are 100 (100/s rolling), got 500: split the call`},
		{make("warm", reserve.PerSecond(10).WarmUp(time.Second)).WaitN(t.Context(), 5), `which is 1 (10/s warmup 1s), got 5: let the limit have .Burst(5), or "10/s burst 5 warmup 1s" as text`},
		{make("slow", reserve.PerDay(1)).WaitN(t.Context(), 100_000), `which is 1 (1/day), got 100000: split the call`},
		{func() error { _, err := make("slots", reserve.Concurrent(3)).Acquire(t.Context(), 4); return err }(), `which are 3 (3 at once), got 4: split the call`},
	} {
		require.ErrorIs(t, c.err, reserve.ErrInvalid)
		require.ErrorContains(t, c.err, c.says)
		require.Equal(t, !strings.Contains(c.says, "at least"), errors.Is(c.err, reserve.ErrExceedsBurst))
	}
}

// Hostile keys and IDs are data: each has a queue of its own and none reaches the keys of
// another.
func TestHostileKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newBubble(t).limiter(reserve.Every(time.Hour))
		hostile := []string{
			"a", "a:waiting", "waiting:a", "{other}", "}{", "a b", "a\r\nFLUSHALL\r\n", "\x00", "\xff\xfe", "..",
			"*", "?", "[a]", "%s%d", "'; return 1 --", "]]", "$(id)", "été", strings.Repeat("k", 512),
		}
		for _, want := range []bool{true, false} {
			for _, key := range hostile {
				require.Equal(t, want, allowed(t, l.For(key), 1), "%q", key)
			}
		}
		require.NoError(t, l.Wait(t.Context()))
		ids := append(hostile[:len(hostile)-1], "1:a", "a:1", "1 2 a", " ", strings.Repeat("i", 256))
		var calls []reserve.Call
		for _, id := range ids {
			calls = append(calls, reserve.Call{ID: id})
		}
		for range 2 { // they keep their places
			for i, joined := range joint(t, l).Book(t.Context(), calls) {
				require.NoError(t, joined.Err)
				require.InDelta(t, time.Duration(i+1)*time.Hour, time.Until(joined.Due), float64(time.Minute), "%q", ids[i])
			}
		}
		require.EqualValues(t, len(ids), state(t, l).Booked)
		for _, id := range ids {
			require.NoError(t, joint(t, l).CancelBooking(t.Context(), id))
		}
		require.Zero(t, state(t, l).Booked)
	})
}

// A key that holds something else gives a typed error and is left as it is.
func TestForeignKeysAreLeftAlone(t *testing.T) {
	const key = "fleetpace:{api}:p"
	calls := map[string]func(context.Context, *reserve.Limiter) error{
		"wait":    func(ctx context.Context, l *reserve.Limiter) error { return l.Wait(ctx) },
		"allow":   func(ctx context.Context, l *reserve.Limiter) error { _, err := l.Allow(ctx); return err },
		"reserve": func(ctx context.Context, l *reserve.Limiter) error { _, err := l.Reserve(ctx); return err },
		"pause":   func(ctx context.Context, l *reserve.Limiter) error { return l.Pause(ctx, time.Second, "") },
		"resume":  func(ctx context.Context, l *reserve.Limiter) error { return l.Resume(ctx) },
		"ask": func(ctx context.Context, l *reserve.Limiter) error {
			j, _ := reserve.All(l)
			_, err := j.Ask(ctx, "id", time.Second)
			return err
		},
		"book": func(ctx context.Context, l *reserve.Limiter) error {
			j, _ := reserve.All(l)
			return j.Book(ctx, []reserve.Call{{ID: "id"}})[0].Err
		},
		"cancel booking": func(ctx context.Context, l *reserve.Limiter) error {
			j, _ := reserve.All(l)
			return j.CancelBooking(ctx, "id")
		},
		"set limit": func(ctx context.Context, l *reserve.Limiter) error { return l.SetLimit(ctx, l.Limit(), 0) },
		"state":     func(ctx context.Context, l *reserve.Limiter) error { _, err := l.State(ctx); return err },
	}
	for op, call := range calls {
		for kind, spoil := range map[string][]any{
			"string":  {"set", key, "mine"},
			"list":    {"rpush", key, "mine"},
			"hash":    {"hset", key, "owner", "me"},
			"garbage": {"hset", key, "plain", "~1 - p 1000000 1", "version", "x", "limit", "nan"},
		} {
			t.Run(fmt.Sprint(op, " on ", kind), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBubble(t)
					admin := b.client()
					l := b.limiter(reserve.PerSecond(1))
					require.NoError(t, admin.Do(t.Context(), spoil...).Err())
					before := b.mini.Dump()
					err := call(t.Context(), l)
					require.ErrorIs(t, err, reserve.ErrCorrupt)
					var typed *reserve.Error
					require.ErrorAs(t, err, &typed)
					require.Equal(t, "api", typed.Key)
					require.Equal(t, op, typed.Op)
					require.NoError(t, l.Close())
					require.NoError(t, admin.Del(t.Context(), append(lua.BeatKeys("fleetpace", "", "api"), lua.Index("fleetpace"))...).Err())
					require.Equal(t, before, b.mini.Dump())
				})
			})
		}
	}
}
