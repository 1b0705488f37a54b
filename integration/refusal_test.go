package integration

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// spoiler makes a server refuse, or a client be refused. It returns a function that restores
// everything.
type spoiler func(*testing.T, *redis.Client, *redis.Options) (restore func() error)

// refusal is one way in which a real Redis refuses calls.
type refusal struct {
	means  error
	advice string   // part of the error's text
	args   []string // the server's options
	spoil  spoiler
}

// For every refusal of a real Redis, the error says what to do. A refused call does not count as
// one whose outcome is unknown, and it changes nothing.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]refusal{
		"NOREPLICAS": {reserve.ErrUnavailable, "min-replicas-to-write", nil, setting("min-replicas-to-write", "1")},
		"MISCONF":    {reserve.ErrUnavailable, "disk", []string{"--save", "3600 1000000"}, unsaved},
		"READONLY":   {reserve.ErrUnavailable, "replica", nil, replica},
		"MASTERDOWN": {reserve.ErrUnavailable, "lost its master", []string{"--replica-serve-stale-data", "no"}, replica},
		"BUSY":       {reserve.ErrUnavailable, "SCRIPT KILL", []string{"--lua-time-limit", "1"}, busy},
		"LOADING": {reserve.ErrUnavailable, "just started", []string{"--enable-debug-command", "yes",
			"--rdbcompression", "no", "--loading-process-events-interval-bytes", "1024"}, loading},

		"NOAUTH":              {reserve.ErrDenied, "set Username and Password", nil, setting("requirepass", "secret")},
		"WRONGPASS":           {reserve.ErrDenied, "check Username and Password", nil, wrongPassword},
		"NOPERM":              {reserve.ErrDenied, "lua.ACL", nil, user("~*", "+@read")},
		"NOPERM for the keys": {reserve.ErrDenied, "lua.ACL", nil, user("~other:*", "+@all")},
		"NOPERM in a script":  {reserve.ErrDenied, "lua.ACL", nil, user("~*", "+@all", "-hmget")},
		"other type":          {reserve.ErrCorrupt, "something else", nil, otherType},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			admin := redistest.Local(t, append([]string{"--hz", "100"}, r.args...)...).Client(t)
			makeQueue(t, admin)
			before := content(t, admin)
			options := redis.Options{Addr: admin.Options().Addr}
			restore := r.spoil(t, admin, &options)
			mustBeRefused(t, &options, func(op string, err error) {
				if op == "state" && err == nil && slices.Contains([]string{"NOREPLICAS", "MISCONF", "READONLY"}, name) {
					return // these refuse only commands that write
				}
				require.ErrorIs(t, err, r.means, op)
				require.NotErrorIs(t, err, reserve.ErrOutcomeUnknown, op)
				require.ErrorContains(t, err, r.advice, op)
			})
			require.NoError(t, restore())
			require.Equal(t, before, content(t, admin))
		})
	}
}

// A server without free connections closes new ones before it reads anything. The client may see
// the end of the connection before the reason.
func TestMaxClients(t *testing.T) {
	t.Parallel()
	admin := redistest.Local(t, "--hz", "100").Client(t)
	makeQueue(t, admin)
	before := content(t, admin)
	restore := setting("maxclients", "1")(t, admin, nil)
	mustBeRefused(t, admin.Options(), func(op string, err error) { require.ErrorIs(t, err, reserve.ErrUnavailable, op) })
	require.NoError(t, restore())
	require.Equal(t, before, content(t, admin))
}

// A server without scripts cannot hold the state of a limit. Nor can a node of a Cluster that has
// no hash slots yet.
func TestServersThatCanNotServe(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]refusal{
		"unknown command": {reserve.ErrDenied, "lacks", []string{"--rename-command", "EVALSHA", "ELSEWHERE"}, nil},
		"CLUSTERDOWN":     {reserve.ErrUnavailable, "CLUSTER INFO", []string{"--cluster-enabled", "yes", "--cluster-port", redistest.Port(t)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			admin := redistest.Local(t, r.args...).Client(t)
			mustBeRefused(t, admin.Options(), func(op string, err error) {
				require.ErrorIs(t, err, r.means, op)
				require.NotErrorIs(t, err, reserve.ErrOutcomeUnknown, op)
				require.ErrorContains(t, err, r.advice, op)
			})
			require.Empty(t, content(t, admin))
		})
	}
}

// A client for a single server that is connected to a node of a Cluster gets an error that says so.
// A cluster client follows the redirection.
func TestNodeOfACluster(t *testing.T) {
	t.Parallel()
	addresses := threeMasters(t)
	ctx := t.Context()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses})
	defer func() { _ = cluster.Close() }()
	makeQueue(t, cluster)
	owner, err := cluster.MasterForKey(ctx, stateKey)
	require.NoError(t, err)
	var others []*redis.Client
	for _, address := range addresses {
		if address != owner.Options().Addr {
			client := redis.NewClient(&redis.Options{Addr: address})
			defer func() { _ = client.Close() }()
			others = append(others, client)
		}
	}
	for _, key := range allKeys(t, owner) { // so that none expires during the test
		require.NoError(t, owner.Persist(ctx, key).Err())
	}
	before := content(t, owner)
	refusedBy := func(node *redis.Client, advice ...string) {
		t.Helper()
		mustBeRefused(t, node.Options(), func(op string, err error) {
			require.ErrorIs(t, err, reserve.ErrUnavailable, op)
			require.NotErrorIs(t, err, reserve.ErrOutcomeUnknown, op)
			for _, says := range advice {
				require.ErrorContains(t, err, says, op)
			}
		})
	}
	for _, other := range others {
		refusedBy(other, "MOVED", "redis.NewClusterClient")
	}
	require.Equal(t, before, content(t, owner))

	keys := allKeys(t, owner)
	// The hash slot is moving to another node, and some of its keys are there already.
	slot, err := owner.ClusterKeySlot(ctx, stateKey).Result()
	require.NoError(t, err)
	id := func(node *redis.Client) string {
		id, err := node.Do(ctx, "cluster", "myid").Text()
		require.NoError(t, err)
		return id
	}
	require.NoError(t, others[0].Do(ctx, "cluster", "setslot", slot, "importing", id(owner)).Err())
	require.NoError(t, owner.Do(ctx, "cluster", "setslot", slot, "migrating", id(others[0])).Err())
	host, port, err := net.SplitHostPort(others[0].Options().Addr)
	require.NoError(t, err)
	for i, key := range keys {
		reply, err := owner.Migrate(ctx, host, port, key, 0, 5*time.Second).Result()
		require.NoError(t, err)
		require.Equal(t, "OK", reply)
		before := content(t, owner)
		if i < len(keys)-1 {
			refusedBy(owner, "TRYAGAIN")
		} else {
			refusedBy(owner, "ASK", "redis.NewClusterClient")
		}
		require.Equal(t, before, content(t, owner))
	}
	require.NoError(t, calls["ask"](ctx, limiter(t, cluster)), "a cluster client follows")
}

// A full Redis refuses a call before it changes anything, or runs it completely: a script that has
// begun to write continues.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	admin := redistest.Local(t, "--hz", "100").Client(t)
	makeQueue(t, admin)
	setting("maxmemory", "1")(t, admin, nil)
	refused := 0
	before := content(t, admin)
	mustBeRefused(t, admin.Options(), func(op string, err error) {
		after := content(t, admin)
		if err != nil {
			refused++
			require.ErrorIs(t, err, reserve.ErrUnavailable, op)
			require.NotErrorIs(t, err, reserve.ErrOutcomeUnknown, op)
			require.ErrorContains(t, err, "raise maxmemory", op)
			require.Equal(t, before, after, op)
		}
		before = after
	})
	require.Positive(t, refused)
}

// After SCRIPT FLUSH, go-redis sends the scripts again, and no call fails.
func TestScriptFlush(t *testing.T) {
	t.Parallel()
	admin := redistest.Local(t, "--hz", "100").Client(t)
	makeQueue(t, admin)
	l := limiter(t, admin)
	for op, call := range calls {
		require.NoError(t, admin.ScriptFlush(t.Context()).Err())
		require.NoError(t, call(t.Context(), l), op)
	}
}

// No server listens, or a server does not answer.
func TestNoServer(t *testing.T) {
	t.Parallel()
	nowhere := &redis.Options{Addr: "127.0.0.1:" + redistest.Port(t)}
	mustBeRefused(t, nowhere, func(op string, err error) {
		require.ErrorIs(t, err, reserve.ErrUnavailable, op)
		require.NotErrorIs(t, err, reserve.ErrOutcomeUnknown, op)
		require.ErrorContains(t, err, "is this the address of Redis", op)
	})

	admin := redistest.Local(t, "--hz", "100").Client(t)
	makeQueue(t, admin)
	client := redis.NewClient(&redis.Options{Addr: admin.Options().Addr, MaxRetries: -1})
	defer func() { _ = client.Close() }()
	require.NoError(t, client.Ping(t.Context()).Err())
	require.NoError(t, admin.Do(t.Context(), "client", "pause", 60_000, "all").Err())
	err := calls["pause"](t.Context(), limiter(t, client.WithTimeout(50*time.Millisecond)))
	require.ErrorIs(t, err, reserve.ErrUnavailable)
	require.ErrorIs(t, err, reserve.ErrOutcomeUnknown, "it is carried out after the pause")
}

// All connections of a client are in use.
func TestPoolExhausted(t *testing.T) {
	t.Parallel()
	admin := redistest.Local(t, "--hz", "100").Client(t)
	makeQueue(t, admin)
	before := content(t, admin)
	client := redis.NewClient(&redis.Options{
		Addr: admin.Options().Addr, PoolSize: 1, PoolTimeout: 10 * time.Millisecond, MaxRetries: -1,
	})
	defer func() { _ = client.Close() }()
	held := client.Conn()
	require.NoError(t, held.Ping(t.Context()).Err())
	l := limiter(t, client)
	for op, call := range calls {
		err := call(t.Context(), l)
		require.ErrorIs(t, err, reserve.ErrUnavailable, op)
		require.NotErrorIs(t, err, reserve.ErrOutcomeUnknown, op)
		require.ErrorContains(t, err, "raise PoolSize", op)
	}
	require.Equal(t, before, content(t, admin))
	require.NoError(t, held.Close())
	require.Eventually(t, func() bool { return calls["state"](t.Context(), l) == nil }, liveness, 10*time.Millisecond)
}

// stateKey is the key with the state of these tests' limit.
const stateKey = "fleetpace:{api}:p"

// calls are the methods that send a request to Redis and return its error.
var calls = map[string]func(context.Context, *reserve.Limiter) error{
	"allow":   func(ctx context.Context, l *reserve.Limiter) error { _, err := l.Allow(ctx); return err },
	"reserve": func(ctx context.Context, l *reserve.Limiter) error { _, err := l.Reserve(ctx); return err },
	"flow":    func(ctx context.Context, l *reserve.Limiter) error { _, err := l.Flow("a").Reserve(ctx); return err },
	"join": func(ctx context.Context, l *reserve.Limiter) error {
		return all(l).Book(ctx, []reserve.Call{{ID: "new"}})[0].Err
	},
	"ask": func(ctx context.Context, l *reserve.Limiter) error {
		_, err := all(l).Ask(ctx, "booked", time.Minute)
		return err
	},
	"leave":  func(ctx context.Context, l *reserve.Limiter) error { return all(l).CancelBooking(ctx, "left") },
	"pause":  func(ctx context.Context, l *reserve.Limiter) error { return l.Pause(ctx, time.Second, "told so") },
	"resume": func(ctx context.Context, l *reserve.Limiter) error { return l.Resume(ctx) },
	"set": func(ctx context.Context, l *reserve.Limiter) error {
		return l.SetLimit(ctx, hourly.Burst(3), time.Minute)
	},
	"state": func(ctx context.Context, l *reserve.Limiter) error { _, err := l.State(ctx); return err },
}

// all returns the Joint of one limit.
func all(l *reserve.Limiter) *reserve.Joint {
	j, err := reserve.All(l)
	if err != nil {
		panic(err)
	}
	return j
}

var hourly = reserve.Every(time.Hour).Burst(2)

func limiter(t *testing.T, client redis.UniversalClient) *reserve.Limiter {
	config := settles(hourly)
	config.Settles = false
	l, err := reserve.New(client, config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func settles(limit reserve.Limit) reserve.Config {
	return reserve.Config{
		Name: "api", Limit: limit, Settles: true,
		Outage: reserve.Outage{Policy: reserve.PolicyFail, Failures: 1},
	}
}

// makeQueue creates the keys of a limit and loads the scripts. Nothing runs when it returns.
func makeQueue(t *testing.T, client redis.UniversalClient) {
	ctx := t.Context()
	own, err := reserve.New(client, settles(hourly))
	require.NoError(t, err)
	_, err = own.Reserve(ctx)
	require.NoError(t, err)
	require.NoError(t, own.Close())

	l := limiter(t, client)
	require.NoError(t, all(l).Book(ctx, []reserve.Call{{ID: "booked"}, {ID: "left"}, {ID: "later"}})[0].Err)
	for _, call := range calls {
		require.NoError(t, call(ctx, l))
	}
	require.NoError(t, l.Close())
}

// allKeys creates the keys of the limit's queue, too, and returns the keys of a call. While a hash
// slot moves, Redis redirects a call to the other node only if all of its keys are there.
func allKeys(t *testing.T, owner *redis.Client) []string {
	keys := lua.Keys(reserve.DefaultPrefix, "", "api", "p", "")
	require.NoError(t, owner.ZAdd(t.Context(), keys[1], redis.Z{Score: 1, Member: "gone:1:1"}).Err())
	require.NoError(t, owner.ZAdd(t.Context(), keys[5], redis.Z{Score: 1, Member: "=gone"}).Err())
	return keys
}

// mustBeRefused makes each call, each from a new process.
func mustBeRefused(t *testing.T, options *redis.Options, check func(op string, err error)) {
	t.Helper()
	var mu sync.Mutex
	refused := map[string]error{}
	var asked sync.WaitGroup
	for op, call := range calls {
		client := redis.NewClient(&redis.Options{
			Addr: options.Addr, Username: options.Username, Password: options.Password,
			MaxRetries: -1, DialerRetries: 1,
		})
		l := limiter(t, client)
		asked.Go(func() {
			defer func() { _ = client.Close() }()
			err := call(t.Context(), l)
			mu.Lock()
			defer mu.Unlock()
			refused[op] = err
		})
	}
	asked.Wait()
	for op, err := range refused {
		if op == "allow" { // the other calls behave alike
			t.Logf("%s: %v", op, err)
		}
		check(op, err)
	}
}

// content returns all data of a server, except heartbeats and the index of names.
func content(t *testing.T, client *redis.Client) map[string]any {
	all, ctx := make(map[string]any), context.Background()
	keys, err := client.Keys(ctx, "*").Result()
	require.NoError(t, err)
	beats := append(lua.BeatKeys(reserve.DefaultPrefix, "", "api"), lua.Index(reserve.DefaultPrefix))
	for _, key := range keys {
		if slices.Contains(beats, key) {
			continue
		}
		switch kind := client.Type(ctx, key).Val(); kind {
		case "hash":
			all[key], err = client.HGetAll(ctx, key).Result()
		case "zset":
			all[key], err = client.ZRangeWithScores(ctx, key, 0, -1).Result()
		default:
			all[key], err = client.Dump(ctx, key).Result()
		}
		require.NoError(t, err)
	}
	return all
}
