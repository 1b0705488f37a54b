package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// finding is what doctor says of one thing.
type finding struct {
	About string `json:"about"`
	Level string `json:"level"` // ok, note or problem
	Text  string `json:"text"`
	Do    string `json:"do,omitempty"` // the line to type
}

func (a *app) doctor() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Check whether Redis and the fleet are set up well, and say what to type",
		Long: `Checks Redis's version, its memory, what it keeps after a crash, the rights of the user, hash slots
of a Cluster, latency and the clock, which versions of fleetpace the processes run and whether they fit
together, and whether a limit is stopped, paused, overridden or used up. It names other databases of the server that
have limits. It writes one key for a moment, to try the rights. It exits with 10 if there is a problem.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := a.examine(cmd.Context())
			if err != nil {
				return err
			}
			if a.format == "json" {
				err = a.json(all)
			} else {
				for _, f := range all {
					fmt.Fprintf(a.out, "%-8s %s: %s\n", f.Level, f.About, plain(f.Text))
					if f.Do != "" {
						fmt.Fprintf(a.out, "         %s\n", plain(f.Do))
					}
				}
			}
			if err == nil && slices.ContainsFunc(all, func(f finding) bool { return f.Level == "problem" }) {
				return errMustAct
			}
			return err
		},
	}
}

// examine makes all checks. The error is that of a Redis that does not answer any more.
func (a *app) examine(ctx context.Context) (all []finding, err error) {
	var mu sync.Mutex
	node := func(ctx context.Context, node *redis.Client) error {
		_, cluster := a.client.(*redis.ClusterClient)
		found := examineNode(ctx, node, cluster)
		mu.Lock()
		defer mu.Unlock()
		for _, f := range found {
			if cluster {
				f.Text = node.Options().Addr + ": " + f.Text
			}
			f.Do = strings.ReplaceAll(f.Do, "redis-cli ", redisCLI(node.Options()))
			all = append(all, f)
		}
		return nil
	}
	switch client := a.client.(type) {
	case *redis.ClusterClient:
		if err := client.ForEachMaster(ctx, node); err != nil {
			return nil, err
		}
		info, err := client.ClusterInfo(ctx).Result()
		all = append(all, ofCluster(fields(info), err))
	case *redis.Client:
		_ = node(ctx, client)
	}
	full := slices.ContainsFunc(all, func(f finding) bool { return f.About == "memory" && f.Level == "problem" })
	rights := a.ofRights(ctx)
	for _, f := range rights {
		if full && strings.Contains(f.Text, "OOM") { // said already
			continue
		}
		if client, ok := a.client.(*redis.Client); ok {
			f.Do = strings.ReplaceAll(f.Do, "redis-cli ", redisCLI(client.Options()))
		}
		all = append(all, f)
	}
	processes, err := a.ofFleet(ctx, strings.Contains(rights[0].Text, "OOM"))
	all = append(all, processes...)
	all = append(all, a.ofDatabases(ctx)...)
	if rights[0].Level == "problem" { // whose line to type gives all rights
		all = slices.DeleteFunc(all, func(f finding) bool {
			return (f.About == "latency" || f.About == "fleet") && (strings.Contains(f.Text, "NOPERM") || strings.Contains(f.Text, reserve.ErrDenied.Error()))
		})
	}
	return all, err
}

// redisCLI begins a command for a server. It names no user, because operators have their own. If there is a password, it asks
// for one.
func redisCLI(o *redis.Options) string {
	host, port, err := net.SplitHostPort(o.Addr)
	words := []string{"redis-cli", "-h", host, "-p", port}
	switch {
	case o.Network == "unix":
		words = []string{"redis-cli", "-s", o.Addr}
	case err != nil: // with Sentinel, the client knows no address
		words = []string{"redis-cli", "-h", "HOST", "-p", "PORT"}
	case port == "6379" && loopback(o.Addr):
		words = words[:1]
	}
	if o.TLSConfig != nil {
		words = append(words, "--tls")
	}
	if o.Password != "" {
		words = append(words, "--askpass")
	}
	return fleet.Quoted(words...) + " "
}

// fields reads what INFO and CLUSTER INFO say: a name and a value in each line.
func fields(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all
}

func examineNode(ctx context.Context, node *redis.Client, cluster bool) []finding {
	info, err := node.Info(ctx).Result()
	if err != nil {
		return append([]finding{{"server", "note", "this user may not ask for its settings (" + err.Error() + "): version, memory and persistence are not checked", "redis-cli ACL SETUSER " + fleet.Quoted(cmp.Or(node.Options().Username, "default")) + " +info"}}, ofTime(ctx, node)...)
	}
	f := fields(info)
	all := append(ofVersion(f), ofMemory(f), ofPersistence(f))
	if f["cluster_enabled"] == "1" && !cluster {
		all = append(all, finding{"cluster", "problem", "the server belongs to a Cluster, and the URL is that of one server", "fleetpace --redis 'redis://HOST:PORT?addr=HOST:PORT' doctor"})
	}
	return append(all, ofTime(ctx, node)...)
}

func ofVersion(info map[string]string) (all []finding) {
	name, version := "Redis", info["redis_version"]
	if v := info["valkey_version"]; v != "" {
		name, version = "Valkey", v
	}
	var major, minor int
	_, _ = fmt.Sscanf(version, "%d.%d", &major, &minor)
	all = append(all, finding{"version", "ok", name + " " + version, ""})
	if major < 6 || major == 6 && minor < 2 {
		all[0] = finding{"version", "problem", name + " " + version + " is too old: scripts need 6.2 or later", "install Redis 7, or Valkey 8"}
	}
	if info["role"] == "slave" {
		all = append(all, finding{"role", "problem", "this server is a replica, and takes no writes", "fleetpace --redis redis://" + info["master_host"] + ":" + info["master_port"] + " doctor"})
	}
	return all
}

func ofMemory(info map[string]string) finding {
	policy := info["maxmemory_policy"]
	most, _ := strconv.ParseFloat(info["maxmemory"], 64)
	used, _ := strconv.ParseFloat(info["used_memory"], 64)
	switch {
	case most > 0 && policy != "noeviction":
		return finding{"memory", "problem", "when its memory is full, it may evict keys of limits (maxmemory-policy " + policy + "); then calls exceed the limit", "redis-cli CONFIG SET maxmemory-policy noeviction"}
	case most > 0 && used >= most:
		return finding{"memory", "problem", fmt.Sprintf("it is full (%.0f %% of maxmemory), so each process follows its outage policy", 100*used/most), "redis-cli CONFIG SET maxmemory " + strconv.FormatFloat(2*used, 'f', 0, 64)}
	case most > 0 && used > 0.9*most:
		return finding{"memory", "problem", fmt.Sprintf("%.0f %% of its memory is used; when it is full, each process follows its outage policy", 100*used/most), "redis-cli CONFIG SET maxmemory " + strconv.FormatFloat(2*most, 'f', 0, 64)}
	case most == 0:
		return finding{"memory", "ok", "no bound (maxmemory 0), so it evicts nothing", ""}
	}
	return finding{"memory", "ok", fmt.Sprintf("%.0f %% of maxmemory is used, and it evicts nothing", 100*used/most), ""}
}

func ofPersistence(info map[string]string) finding {
	switch aof := info["aof_enabled"] == "1"; {
	case info["loading"] == "1":
		return finding{"persistence", "problem", "it still loads its data", "wait, and run fleetpace doctor again"}
	case aof && info["aof_last_write_status"] == "err" || info["rdb_last_bgsave_status"] == "err":
		return finding{"persistence", "problem", "its last write to the disk failed; it may refuse all writes", "df -h; redis-cli INFO persistence"}
	case aof:
		return finding{"persistence", "ok", "an append-only file: a crash loses about a second", ""}
	}
	return finding{"persistence", "note", "no append-only file: after a crash, quotas and rolling limits may count too little, and bookings are lost", "redis-cli CONFIG SET appendonly yes"}
}

// probes is how many round trips measure the latency and the clock.
const probes = 20

// ofTime measures the latency, and looks whether the clock of Redis steps beside the one of this machine.
func ofTime(ctx context.Context, node *redis.Client) []finding {
	var trips []time.Duration
	var first, ahead, step time.Duration
	began := time.Now()
	for i := range probes {
		sent := time.Now()
		clock, err := node.Time(ctx).Result()
		if err != nil {
			return []finding{{"latency", "problem", "it does not tell its time: " + err.Error(), "redis-cli TIME"}}
		}
		trip := time.Since(sent)
		trips = append(trips, trip)
		ahead = clock.Sub(began) - sent.Sub(began) - trip/2 // of this machine's clock at the beginning
		if i == 0 {
			first = ahead
		}
		if moved := (ahead - first).Abs(); moved > max(step, trips[0]+trip) {
			step = moved
		}
		time.Sleep(10 * time.Millisecond)
	}
	slices.Sort(trips)
	return ofTimes(trips[probes/2], trips[probes-1], ahead, step)
}

func ofTimes(median, slowest, ahead, step time.Duration) []finding {
	latency := finding{"latency", "ok", fmt.Sprintf("a round trip takes %v, at most %v of %d", round(median), round(slowest), probes), ""}
	if slowest > 200*time.Millisecond {
		latency.Level, latency.Do = "problem", "redis-cli --latency; redis-cli SLOWLOG GET"
		latency.Text += "; turns that come so late may have expired"
	}
	clock := finding{"clock", "ok", fmt.Sprintf("it differs from the clock of this machine by %v", round(ahead.Abs())), ""}
	switch {
	case step > 20*time.Millisecond:
		clock = finding{"clock", "problem", fmt.Sprintf("it stepped by %v in the last second; turns come early or late by that", round(step)), "chronyc tracking"}
	case ahead.Abs() > time.Second:
		clock.Level, clock.Do = "note", "chronyc tracking"
		clock.Text += "; quotas begin and end by Redis's clock"
	}
	return []finding{latency, clock}
}

func round(d time.Duration) time.Duration {
	if d > 10*time.Millisecond {
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}

func ofCluster(info map[string]string, err error) finding {
	switch assigned := info["cluster_slots_assigned"]; {
	case err != nil:
		return finding{"cluster", "note", "this user may not ask for its state: " + err.Error(), "redis-cli CLUSTER INFO"}
	case info["cluster_state"] != "ok", assigned != "16384", cmp.Or(info["cluster_slots_fail"], "0") != "0":
		return finding{"cluster", "problem", fmt.Sprintf("its state is %s; %s of 16384 hash slots are assigned, and %s fail. Limits in the others have no turns", info["cluster_state"], assigned, info["cluster_slots_fail"]), "redis-cli --cluster check HOST:PORT"}
	}
	return finding{"cluster", "ok", "all 16384 hash slots are served", ""}
}

// tries does what the scripts do, with a key that it removes at once. If a right is missing, the key expires: see
// ofRights.
const tries = `local call, key = redis.call, KEYS[1]
call('TIME') call('HSET', key, 'a', '1') call('PEXPIRE', key, 1000) call('HMGET', key, 'a') call('HGETALL', key) call('HDEL', key, 'b')
call('EXISTS', key) call('UNLINK', key)
call('ZADD', key, 1, 'a') call('PEXPIRE', key, 1000) call('ZCARD', key) call('ZCOUNT', key, 0, 1) call('ZMSCORE', key, 'a') call('ZRANGE', key, 0, 0)
call('ZRANGEBYSCORE', key, 0, 1) call('ZREVRANGE', key, 0, 0) call('ZSCORE', key, 'a') call('ZREM', key, 'b')
call('ZREMRANGEBYRANK', key, 0, 0) call('UNLINK', key)
return 1`

// ofRights tries what the user of this command may do.
func (a *app) ofRights(ctx context.Context) []finding {
	user := userOf(a.client)
	key := a.prefix + ":doctor"
	err := a.client.Unlink(ctx, key).Err() // a user who may not remove the key, or let it expire, makes none
	if err == nil {
		err = a.client.PExpire(ctx, key, time.Second).Err()
	}
	if err == nil {
		err = a.client.Eval(ctx, tries, []string{key}).Err()
	}
	if err == nil {
		err = redis.NewScript(tries).EvalSha(ctx, a.client, []string{key}).Err()
	}
	switch {
	case err == nil:
	case errors.Is(fault.Classify(err), fault.ErrDenied):
		return []finding{{"rights", "problem", "this user may not do what a process of the fleet does (a user that only reads needs less): " + err.Error(), grants(user, a.prefix)}}
	default:
		return []finding{{"rights", "problem", "it refuses scripts that write: " + err.Error(), "redis-cli INFO"}}
	}
	if err := a.client.Publish(ctx, a.prefix+":doctor", "").Err(); err != nil {
		return []finding{{"rights", "note", "this user may not send news, so processes learn late of pauses and free slots: " + err.Error(), grants(user, a.prefix)}}
	}
	return []finding{{"rights", "ok", "this user may do what a process of the fleet does", ""}}
}

// userOf is the user of a client. With Sentinel, the user in the URL is that of the Sentinels.
func userOf(client redis.UniversalClient) string {
	switch client := client.(type) {
	case *redis.ClusterClient:
		return client.Options().Username
	case *redis.Client:
		return client.Options().Username
	}
	return ""
}

// grants is the command that gives a user the rights of a process. It takes no right away.
func grants(user, prefix string) string {
	line := "redis-cli ACL SETUSER " + fleet.Quoted(cmp.Or(user, "default"))
	for _, rule := range strings.Fields(lua.ACL(prefix) + " " + lua.ACLNews(prefix)) {
		if strings.ContainsAny(rule[:1], "+~&") {
			line += " " + fleet.Quoted(rule)
		}
	}
	return line
}

// ofFleet looks whether the processes fit together, and whether a limit is stopped or paused.
func (a *app) ofFleet(ctx context.Context, full bool) ([]finding, error) {
	names, err := a.fleet.Names(ctx)
	if err != nil {
		return []finding{{"fleet", "problem", err.Error(), a.fleet.Command("ls")}}, nil
	}
	var all []finding
	alive, keys := map[string]bool{}, ""
	var spoken versions
	var denied error // one finding for all limits
	for _, n := range names {
		s, err := a.fleet.Look(ctx, n, 1, "")
		if errors.Is(err, reserve.ErrDenied) {
			denied = err
			continue
		} else if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(s.Keys, func(q fleet.Queue) bool { return q.Key != "" }) {
			keys = "; keys were not looked at"
		}
		for i := range s.Processes {
			if p := &s.Processes[i]; p.Alive {
				alive[p.ID] = true
			}
		}
		spoken.add(s.Survey)
		for i := range s.Rows { // none, if no process has used the limit lately
			if set := s.Override(&s.Rows[i]); set != "" {
				all = append(all, finding{"fleet", "note", n.String() + ": " + set, a.fleet.Command("reset", n.String())})
			}
		}
		answer, err := a.fleet.Explain(ctx, n, "")
		switch {
		case errors.Is(err, fleet.ErrUnknown): // it has just expired
			continue
		case errors.Is(err, reserve.ErrDenied):
			denied = err
			continue
		case err != nil:
			return nil, err
		}
		do := a.fleet.Command("why", n.String())
		if answer.Reason == fleet.WhyNoWrites { // what to type is said of the server
			do = ""
		}
		switch {
		case answer.Reason == fleet.WhyNobody && answer.Held == 0: // somebody may have ended them by hand
			all = append(all, finding{"fleet", "note", n.String() + ": " + answer.Text + " Nothing waits here", do})
		case mustAct(answer), answer.Reason == fleet.WhyDiffer:
			all = append(all, finding{"fleet", "problem", strings.TrimSpace(n.String() + ": " + answer.Text + " " + answer.More), do})
		case len(s.Differ) > 0:
			all = append(all, finding{"fleet", "problem", n.String() + ": processes are configured with different limits", do})
		case answer.Reason == fleet.WhyPaused, answer.Reason == fleet.WhyUsedUp:
			all = append(all, finding{"fleet", "note", strings.TrimSpace(n.String() + ": " + answer.Text + " " + answer.More), do})
		}
	}
	if denied != nil {
		all = append(all, finding{"fleet", "problem", denied.Error(), ""})
	}
	switch {
	case len(names) == 0 && full:
		return []finding{{"fleet", "note", a.fleet.None() + "; processes that run could not write here", ""}}, nil
	case len(names) == 0:
		return []finding{{"fleet", "note", a.fleet.None() + "; if workers run, theirs is another Redis or prefix", "fleetpace doctor --redis URL --prefix TEXT"}}, nil
	case len(all) == 0:
		all = []finding{{"fleet", "ok", fmt.Sprintf("limits: %d, processes alive: %d (compare with what you deployed); they fit together, and no limit is stopped, paused, overridden or used up%s", len(names), len(alive), keys), ""}}
	}
	return append(all, spoken.findings(a.others(ctx))...), nil
}
