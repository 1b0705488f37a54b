package integration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// The documented rules are enough for everything that a limiter does, and every
// command in them is needed for it. (All tests of package reserve run with them
// too, where FLEETPACE_RESERVE_REDIS=real.)
func TestACL(t *testing.T) {
	t.Parallel()
	admin := redistest.Local(t, "--hz", "100").Client(t)
	rules := strings.Split(lua.ACL(reserve.DefaultPrefix), " ")
	client := func(t *testing.T, rules []string) redis.UniversalClient {
		setUser(t, admin, rules)
		c := redis.NewClient(&redis.Options{Addr: admin.Options().Addr, Username: "worker", Password: "secret"})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	require.NoError(t, everything(t, admin, client(t, rules)))
	require.Empty(t, denials(t, admin), "nothing was refused")
	for _, rule := range rules {
		if command, adds := strings.CutPrefix(rule, "+"); adds {
			t.Run("without "+command, func(t *testing.T) {
				require.ErrorIs(t, everything(t, admin, client(t, without(rules, rule))), reserve.ErrDenied)
				require.Contains(t, denials(t, admin), command)
			})
		}
	}

	t.Run("other keys", func(t *testing.T) {
		other, err := reserve.New(client(t, rules), reserve.Config{Name: "api", Prefix: "mine", Limit: reserve.PerSecond(1)})
		require.NoError(t, err)
		_, err = other.State(t.Context())
		require.ErrorIs(t, err, reserve.ErrDenied)
	})
	t.Run("odd prefix", func(t *testing.T) {
		const odd = "a *[b]?\\c"
		l, err := reserve.New(client(t, strings.Split(lua.ACL(odd), " ")), reserve.Config{Name: "api", Prefix: odd, Limit: reserve.PerSecond(1)})
		require.NoError(t, err)
		require.NoError(t, l.Wait(t.Context()))
		for _, like := range []string{"a xyz[b]?\\c", "a *b?\\c", "a *[b]x\\c"} {
			l, err := reserve.New(client(t, strings.Split(lua.ACL(odd), " ")), reserve.Config{Name: "api", Prefix: like, Limit: reserve.PerSecond(1)})
			require.NoError(t, err)
			require.ErrorIs(t, l.Wait(t.Context()), reserve.ErrDenied, like)
		}
	})
	for rule, change := range map[string]func(*redis.Options){
		"+select":         func(o *redis.Options) { o.DB = 1 },
		"+client|setname": func(o *redis.Options) { o.ClientName = "worker-1" },
	} {
		t.Run(rule, func(t *testing.T) {
			require.NoError(t, admin.FlushAll(t.Context()).Err()) // what a user without a right has left
			for _, allowed := range []bool{false, true} {
				options := &redis.Options{Addr: admin.Options().Addr, Username: "worker", Password: "secret"}
				change(options)
				setUser(t, admin, rules)
				if allowed {
					setUser(t, admin, append(slices.Clone(rules), rule))
				}
				c := redis.NewClient(options)
				_, err := limiter(t, c).State(t.Context())
				require.NoError(t, c.Close())
				if allowed {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, reserve.ErrDenied)
				}
			}
		})
	}
}

// The same for a cluster client, also while a slot is on its way to another node.
func TestACLOfACluster(t *testing.T) {
	t.Parallel()
	addresses := threeMasters(t)
	ctx := t.Context()
	var nodes []*redis.Client
	for _, address := range addresses {
		node := redis.NewClient(&redis.Options{Addr: address})
		defer func() { _ = node.Close() }()
		nodes = append(nodes, node)
	}
	own := strings.Split(lua.ACLCluster, " ")
	rules := append(strings.Split(lua.ACL(reserve.DefaultPrefix), " "), own...)
	try := func(rules []string) (denied []string, err error) {
		for _, node := range nodes {
			setUser(t, node, rules)
		}
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses, Username: "worker", Password: "secret"})
		defer func() { _ = client.Close() }()
		_, err = limiter(t, client).State(ctx)
		for _, node := range nodes {
			denied = append(denied, denials(t, node)...)
		}
		return denied, err
	}
	admin := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses})
	defer func() { _ = admin.Close() }()
	makeLine(t, admin)
	owner, err := admin.MasterForKey(ctx, lineKey)
	require.NoError(t, err)
	other := nodes[0]
	if other.Options().Addr == owner.Options().Addr {
		other = nodes[1]
	}
	id := func(node *redis.Client) string {
		id, err := node.Do(ctx, "cluster", "myid").Text()
		require.NoError(t, err)
		return id
	}
	slot, err := owner.ClusterKeySlot(ctx, lineKey).Result()
	require.NoError(t, err)
	require.NoError(t, other.Do(ctx, "cluster", "setslot", slot, "importing", id(owner)).Err())
	require.NoError(t, owner.Do(ctx, "cluster", "setslot", slot, "migrating", id(other)).Err())
	host, port, err := net.SplitHostPort(other.Options().Addr)
	require.NoError(t, err)
	for _, key := range lua.Keys(reserve.DefaultPrefix, "api", "") {
		require.NoError(t, owner.Migrate(ctx, host, port, key, 0, 5*time.Second).Err())
	}

	denied, err := try(rules)
	require.NoError(t, err)
	require.Empty(t, denied)
	for _, rule := range own {
		denied, _ := try(without(rules, rule))
		require.Contains(t, denied, rule[1:])
	}
}

// The rules for the Sentinels are enough, and each is needed: the last one when
// nothing happened for some seconds.
func TestACLOfSentinels(t *testing.T) {
	t.Parallel()
	admin := redistest.Local(t, "--hz", "100").Client(t)
	setUser(t, admin, strings.Split(lua.ACL(reserve.DefaultPrefix), " "))
	address := sentinelOf(t, admin.Options().Addr)
	watch := redis.NewClient(&redis.Options{Addr: address})
	defer func() { _ = watch.Close() }()
	rules := strings.Split(lua.ACLSentinel, " ")
	try := func(t *testing.T, rules []string, denied string) {
		setUser(t, watch, rules)
		client := redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: "api", SentinelAddrs: []string{address}, DialerRetries: 1, MaxRetries: -1,
			Username: "worker", Password: "secret", SentinelUsername: "worker", SentinelPassword: "secret",
		})
		defer func() { _ = client.Close() }()
		err := everything(t, admin, client)
		if denied == "" {
			require.NoError(t, err)
			time.Sleep(4 * time.Second) // it looks after its subscription every 3 s
			require.Empty(t, denials(t, watch))
			return
		}
		require.Eventually(t, func() bool { return slices.Contains(denials(t, watch), denied) }, liveness, 50*time.Millisecond)
	}
	try(t, rules, "")
	for _, rule := range rules {
		if needed := strings.TrimLeft(rule, "+&"); needed != rule {
			t.Run("without "+needed, func(t *testing.T) {
				if rule[0] == '&' {
					needed = rule[1:]
				}
				try(t, without(rules, rule), needed)
			})
		}
	}
	require.Empty(t, denials(t, admin))
}

// sentinelOf starts a Sentinel that watches a Redis under the name api.
func sentinelOf(t *testing.T, master string) string {
	host, port, err := net.SplitHostPort(master)
	require.NoError(t, err)
	own := freePort(t)
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	require.NoError(t, os.WriteFile(conf, fmt.Appendf(nil,
		"bind 127.0.0.1\nport %s\nsentinel monitor api %s %s 1\n", own, host, port), 0o600))
	process := exec.CommandContext(t.Context(), "redis-server", conf, "--sentinel")
	require.NoError(t, process.Start())
	t.Cleanup(func() { _ = process.Wait() })
	client := redis.NewSentinelClient(&redis.Options{Addr: "127.0.0.1:" + own})
	defer func() { _ = client.Close() }()
	require.Eventually(t, func() bool { return client.GetMasterAddrByName(t.Context(), "api").Err() == nil },
		liveness, 20*time.Millisecond, "the sentinel knows the master")
	return "127.0.0.1:" + own
}

// everything does all that a limiter can, so that its scripts come to each of
// their commands, and returns what failed.
func everything(t *testing.T, admin *redis.Client, client redis.UniversalClient) error {
	ctx := t.Context()
	require.NoError(t, admin.FlushAll(ctx).Err()) // a server of this test alone
	require.NoError(t, admin.ScriptFlush(ctx).Err())
	var failed []error
	// Each call is the first of its process: what is refused then, is no outage.
	do := func(call func(l *reserve.Limiter) error) { failed = append(failed, call(limiter(t, client))) }
	reserveAs := func(id string) func(*reserve.Limiter) error {
		return func(l *reserve.Limiter) error { _, err := l.ReserveAs(ctx, id, 1); return err }
	}
	cancel := func(id string) func(*reserve.Limiter) error {
		return func(l *reserve.Limiter) error { _, err := l.Cancel(ctx, id, 1); return err }
	}
	do(func(l *reserve.Limiter) error { return l.Wait(ctx) })
	require.NoError(t, admin.HSet(ctx, lineKey, "m:dead", "1 1 ").Err()) // a process of 1970
	for _, id := range []string{"now", "held", "b", "c", "d", "e"} {
		do(reserveAs(id))
	}
	do(func(l *reserve.Limiter) error {
		r, err := l.Claim(ctx, "now", 1)
		if err != nil {
			return err
		}
		return errors.Join(r.Wait(ctx), r.Forget(ctx))
	})
	do(cancel("d")) // is free then, and comes back with e, the last
	do(cancel("e"))
	for _, call := range calls {
		do(func(l *reserve.Limiter) error { return call(ctx, l) })
	}
	do(func(l *reserve.Limiter) error { return l.For("a").Wait(ctx) })
	do(func(l *reserve.Limiter) error { // the last final one
		r, err := l.For("a").Reserve(ctx)
		if err != nil {
			return err
		}
		return r.Cancel(ctx)
	})
	do(func(l *reserve.Limiter) error { _, err := l.Allow(ctx); return err })
	return errors.Join(failed...)
}

// setUser gives the user of these tests the rules and nothing more.
func setUser(t *testing.T, admin *redis.Client, rules []string) {
	args := []any{"acl", "setuser", "worker", "reset", "on", ">secret"}
	for _, rule := range rules {
		args = append(args, rule)
	}
	require.NoError(t, admin.Do(t.Context(), args...).Err())
	require.NoError(t, admin.Do(t.Context(), "acl", "log", "reset").Err())
}

func without(rules []string, rule string) []string {
	return slices.DeleteFunc(slices.Clone(rules), func(r string) bool { return r == rule })
}

// denials are the commands, keys and channels that a server refused since the
// user was set, but for what go-redis tells about itself.
func denials(t *testing.T, admin *redis.Client) (denied []string) {
	entries, err := admin.Do(context.Background(), "acl", "log").Slice()
	require.NoError(t, err)
	for _, entry := range entries {
		fields, ok := entry.(map[any]any)
		require.True(t, ok)
		if object := fmt.Sprint(fields["object"]); !strings.HasPrefix(object, "client|") {
			denied = append(denied, object)
		}
	}
	return denied
}
