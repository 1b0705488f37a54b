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

// ofBeat are the commands that only the heartbeat needs, so no call fails without them.
var ofBeat = []string{"hgetall", "hdel"}

// The documented rules are enough for everything that a limiter does, and every command in them is
// needed for it.
func TestACL(t *testing.T) {
	t.Parallel()
	admin := redistest.Local(t, "--hz", "100").Client(t)
	rules := strings.Split(lua.ACL(reserve.DefaultPrefix), " ")
	more := append(strings.Split(lua.ACLNews(reserve.DefaultPrefix), " "), lua.ACLServer)
	all := append(slices.Clone(rules), more...)
	client := func(t *testing.T, rules []string) redis.UniversalClient {
		setUser(t, admin, rules)
		c := redis.NewClient(&redis.Options{Addr: admin.Options().Addr, Username: "worker", Password: "secret"})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	t.Run("all rules", func(t *testing.T) {
		require.NoError(t, everything(t, admin, client(t, all)))
		require.Empty(t, denials(t, admin), "nothing was refused")
	})
	t.Run("no news", func(t *testing.T) { require.NoError(t, everything(t, admin, client(t, rules))) })
	for _, rule := range all {
		needed := strings.TrimLeft(rule, "+&")
		if needed == rule || needed == "ping" { // it is only sent after a long time without news
			continue
		}
		if rule[0] == '&' {
			needed = "fleetpace:{api}:turns"
		}
		t.Run("without "+needed, func(t *testing.T) {
			err := everything(t, admin, client(t, without(all, rule)))
			if slices.Contains(rules, rule) && !slices.Contains(ofBeat, needed) {
				require.ErrorContains(t, err, reserve.ErrDenied.Error())
			} else {
				require.NoError(t, err)
			}
			require.Contains(t, denials(t, admin), needed)
		})
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
			require.NoError(t, admin.FlushAll(t.Context()).Err()) // a user without some right leaves data behind
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

// The same for a cluster client, also while a hash slot moves to another node.
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
	makeQueue(t, admin)
	owner, err := admin.MasterForKey(ctx, stateKey)
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
	keys := allKeys(t, owner)
	slot, err := owner.ClusterKeySlot(ctx, stateKey).Result()
	require.NoError(t, err)
	require.NoError(t, other.Do(ctx, "cluster", "setslot", slot, "importing", id(owner)).Err())
	require.NoError(t, owner.Do(ctx, "cluster", "setslot", slot, "migrating", id(other)).Err())
	host, port, err := net.SplitHostPort(other.Options().Addr)
	require.NoError(t, err)
	for _, key := range keys {
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

// The rules for the Sentinels are enough, and each is needed. The last one is needed only after
// some idle seconds.
func TestACLOfSentinels(t *testing.T) {
	t.Parallel()
	admin := redistest.Local(t, "--hz", "100").Client(t)
	setUser(t, admin, strings.Split(lua.ACL(reserve.DefaultPrefix)+" "+lua.ACLNews(reserve.DefaultPrefix)+" "+lua.ACLServer, " "))
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
			time.Sleep(4 * time.Second) // it checks its subscription every 3 s
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
	own := redistest.Port(t)
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

// everything does all that a limiter can do, so that its scripts run each of their commands. It
// returns what failed.
func everything(t *testing.T, admin *redis.Client, client redis.UniversalClient) error {
	ctx := t.Context()
	require.NoError(t, admin.FlushAll(ctx).Err()) // a server of this test alone
	require.NoError(t, admin.ScriptFlush(ctx).Err())
	beats := lua.BeatKeys(reserve.DefaultPrefix, "", "api")
	require.NoError(t, admin.ZAdd(ctx, beats[0], redis.Z{Score: 1, Member: "dead"}).Err()) // since 1970
	require.NoError(t, admin.HSet(ctx, beats[1], "since", 1).Err())
	require.NoError(t, admin.HSet(ctx, beats[2], "dead", "1 1/s", "gone", "- 1").Err())
	var failed []error
	// Each call is the first one of its process: a refusal does not count as an outage then.
	do := func(call func(l *reserve.Limiter) error) { failed = append(failed, call(limiter(t, client))) }
	first := limiter(t, client) // it stays open, so that its heartbeat and its subscription show
	failed = append(failed, first.Wait(ctx))
	held := make([]*reserve.Reservation, 2)
	for i := range held {
		var err error
		held[i], err = first.Reserve(ctx)
		failed = append(failed, err)
	}
	for _, call := range calls {
		do(func(l *reserve.Limiter) error { return call(ctx, l) })
	}
	if held[0] != nil {
		failed = append(failed, held[0].Cancel(ctx)) // the other one gets the news
	}
	for key, limit := range map[string]reserve.Limit{"settled": hourly, "rolling": reserve.Rolling(2, time.Hour)} {
		config := settles(limit)
		if limit.Kind() == reserve.KindRolling {
			config.Name = "other" // a name has one kind
		}
		l, err := reserve.New(client, config)
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		failed = append(failed, settleOne(ctx, l.For(key)))
	}
	do(func(l *reserve.Limiter) error { _, err := l.Allow(ctx); return err })
	if err := errors.Join(failed...); err != nil {
		return err
	}
	require.Eventually(t, func() bool { // Redis or the log shows what runs in the background
		seen, err := admin.PubSubNumSub(ctx, lua.Channel(reserve.DefaultPrefix, "", "api")).Result()
		require.NoError(t, err)
		beaten, err := admin.HExists(ctx, beats[1], "dead").Result()
		require.NoError(t, err)
		denied := denials(t, admin)
		return (!beaten || len(denied) > 0) && (seen[lua.Channel(reserve.DefaultPrefix, "", "api")] > 0 || len(denied) > 0)
	}, liveness, 10*time.Millisecond)
	return nil
}

// settleOne makes a call that costs less than its estimate, and asks for another one.
func settleOne(ctx context.Context, l *reserve.Limiter) error {
	r, err := l.ReserveN(ctx, 2)
	if err != nil {
		return err
	}
	if err := r.Wait(ctx); err != nil {
		return err
	}
	_, err = l.AllowN(ctx, 2)
	return errors.Join(err, r.Settle(ctx, 1))
}

// setUser gives the user of these tests exactly these rules.
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

// denials are the commands, keys and channels that a server has refused since the user was set.
// They do not include go-redis's own commands.
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
