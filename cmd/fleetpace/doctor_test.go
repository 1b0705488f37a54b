package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/frozen"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/lua"
)

// Each setting that goes wrong is found, and one that is right is not.
func TestFindings(t *testing.T) {
	version := func(info map[string]string) finding { all := ofVersion(info); return all[len(all)-1] }
	times := func(slowest, ahead, step time.Duration, which int) finding {
		return ofTimes(time.Millisecond, slowest, ahead, step)[which]
	}
	for _, c := range []struct {
		got         finding
		level, says string
	}{
		{version(map[string]string{"redis_version": "6.0.16"}), "problem", "6.2"},
		{version(map[string]string{"redis_version": "6.2.1"}), "ok", "Redis 6.2.1"},
		{version(map[string]string{"redis_version": "7.2.4", "valkey_version": "8.0.1"}), "ok", "Valkey 8.0.1"},
		{version(map[string]string{"redis_version": "7.2.4", "role": "slave"}), "problem", "replica"},
		{ofMemory(map[string]string{"maxmemory": "0", "maxmemory_policy": "allkeys-lru"}), "ok", "no bound"},
		{ofMemory(map[string]string{"maxmemory": "100", "maxmemory_policy": "volatile-ttl"}), "problem", "evict"},
		{ofMemory(map[string]string{"maxmemory": "100", "used_memory": "95", "maxmemory_policy": "noeviction"}), "problem", "95 %"},
		{ofMemory(map[string]string{"maxmemory": "100", "used_memory": "5", "maxmemory_policy": "noeviction"}), "ok", "5 %"},
		{ofPersistence(map[string]string{"loading": "1"}), "problem", "loads"},
		{ofPersistence(map[string]string{"aof_enabled": "1", "aof_last_write_status": "err"}), "problem", "disk"},
		{ofPersistence(map[string]string{"aof_enabled": "0", "rdb_last_bgsave_status": "err"}), "problem", "disk"},
		{ofPersistence(map[string]string{"aof_enabled": "1", "aof_last_write_status": "ok"}), "ok", "append-only"},
		{ofPersistence(map[string]string{"aof_enabled": "0"}), "note", "crash"},
		{times(time.Second, 0, 0, 0), "problem", "1s"},
		{times(time.Millisecond, 0, 0, 0), "ok", "1ms"},
		{times(0, 0, time.Second, 1), "problem", "stepped by 1s"},
		{times(0, -time.Minute, 0, 1), "note", "1m0s"},
		{times(0, time.Millisecond, 0, 1), "ok", "1ms"},
		{ofCluster(map[string]string{"cluster_state": "ok", "cluster_slots_assigned": "16384", "cluster_slots_fail": "0"}, nil), "ok", "16384"},
		{ofCluster(map[string]string{"cluster_state": "ok", "cluster_slots_assigned": "16000", "cluster_slots_fail": "0"}, nil), "problem", "16000"},
		{ofCluster(map[string]string{"cluster_state": "fail", "cluster_slots_assigned": "16384"}, nil), "problem", "fail"},
		{ofCluster(nil, errors.New("NOPERM")), "note", "NOPERM"},
	} {
		require.Equal(t, c.level, c.got.Level, c.got)
		require.Contains(t, c.got.Text, c.says)
		require.Equal(t, c.level == "ok", c.got.Do == "", "who reads of trouble reads what to type: %v", c.got)
	}
}

// A Redis that is set up badly is found, and what doctor says to type mends it.
func TestDoctor(t *testing.T) {
	t.Parallel()
	server := redistest.Local(t, "--appendonly", "yes")
	s := newScene(t, server)
	require.NoError(t, s.limiter("api", "100/s").Wait(t.Context()))
	s.known("api")
	healthy := func(args ...string) string {
		_, out, errs := s.command("", append([]string{"doctor"}, args...)...)
		for line := range strings.Lines(out) { // this machine may stand still for a moment
			require.False(t, strings.HasPrefix(line, "problem") && !strings.Contains(line, " latency: ") && !strings.Contains(line, " clock: "), out+errs)
		}
		return out
	}
	out := healthy()
	for _, about := range []string{"version", "memory", "persistence", "rights", "fleet"} {
		require.Contains(t, out, "ok       "+about)
	}
	for key, value := range map[string]string{"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"} {
		require.NoError(t, s.client.ConfigSet(t.Context(), key, value).Err())
	}
	code, out, _ := s.command("", "doctor")
	require.Equal(t, exitMustAct, code, out)
	require.Contains(t, out, "problem  memory: when its memory is full, it may evict keys")
	require.Contains(t, out, "         "+redisCLI(&redis.Options{Addr: server.Addr()})+"CONFIG SET maxmemory-policy noeviction\n")
	require.NoError(t, s.client.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err())
	require.NoError(t, s.client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	_, out, _ = s.command("", "doctor")
	require.Contains(t, out, "problem  memory: it is full (")
	require.NotContains(t, out, "rights")
	require.NoError(t, s.client.ConfigSet(t.Context(), "maxmemory", "100mb").Err())
	require.Contains(t, healthy("-o", "json"), `"level": "ok"`)

	require.NoError(t, s.client.Do(t.Context(), "ACL", "SETUSER", "bob", "on", ">x", "+info", "+ping").Err())
	s.url = "redis://bob:x@" + server.Addr()
	code, out, _ = s.command("", "doctor")
	require.Equal(t, exitMustAct, code, out)
	require.Contains(t, out, "problem  rights: this user may not do")
	require.Equal(t, 1, strings.Count(out, "problem"), "one line to type gives all rights: %s", out)
	_, line, ok := strings.Cut(out, redisCLI(&redis.Options{Addr: server.Addr(), Password: "x"})+"ACL SETUSER bob ")
	require.True(t, ok, out)
	line, _, _ = strings.Cut(line, "\n")
	rules := []any{"ACL", "SETUSER", "bob"}
	for _, rule := range strings.Fields(line) {
		rules = append(rules, strings.Trim(rule, "'"))
	}
	require.NoError(t, s.client.Do(t.Context(), rules...).Err())
	require.Contains(t, healthy(), "ok       rights")
	left, err := s.client.Exists(t.Context(), s.prefix+":doctor").Result()
	require.NoError(t, err)
	require.Zero(t, left)
	s.url = "redis://bob:wrong@" + server.Addr()
	for _, words := range [][]string{{"doctor"}, {"why", "api"}, {"ls"}} {
		code, out, errs := s.command("", words...)
		require.Equal(t, exitAway, code)
		require.Empty(t, out)
		require.Contains(t, errs, "redis refuses the user or the password")
	}
}

// What doctor says to type reaches the server that it has looked at.
func TestRedisCLI(t *testing.T) {
	for want, o := range map[string]redis.Options{
		"redis-cli ": {Addr: "localhost:6379"}, "redis-cli -h r.example -p 6380 --tls ": {Addr: "r.example:6380", TLSConfig: &tls.Config{}},
		"redis-cli -s /run/redis.sock ": {Network: "unix", Addr: "/run/redis.sock"}, "redis-cli -h HOST -p PORT ": {Addr: "FailoverClient"},
		"redis-cli -h ::1 -p 6380 ": {Addr: "[::1]:6380"}, "redis-cli --askpass ": {Addr: "localhost:6379", Password: "secret"},
	} {
		require.Equal(t, want, redisCLI(&o))
	}
}

// What doctor says to type gives a Redis that is over its bound enough memory.
func TestDoctorGivesMemory(t *testing.T) {
	f := ofMemory(map[string]string{"maxmemory": "100", "used_memory": "230", "maxmemory_policy": "noeviction"})
	require.Equal(t, "redis-cli CONFIG SET maxmemory 460", f.Do)
}

// Calls that wait although all processes are dead are a problem. Processes that were killed after their last call are not.
func TestDoctorFindsDeadFleets(t *testing.T) {
	t.Parallel()
	server := redistest.Mini(t)
	s := newScene(t, server)
	workers := newScene(t, server)
	workers.prefix = s.prefix
	require.NoError(t, workers.limiter("done", "100/s").Wait(t.Context()))
	l := workers.limiter("api", "1/hour")
	require.NoError(t, l.Wait(t.Context()))
	workers.wait(l, 1)
	require.Eventually(t, func() bool {
		return strings.Contains(s.does("why"), "1 call waits") && strings.Contains(s.does("ls"), "done")
	}, 20*time.Second, 20*time.Millisecond)
	require.NoError(t, workers.client.Close())
	for name, died := range map[string]float64{"api": 1, "done": -1} {
		beats := lua.BeatKeys(s.prefix, "", name)[0]
		processes, err := s.client.ZRange(t.Context(), beats, 0, -1).Result()
		require.NoError(t, err)
		require.NoError(t, s.client.ZAdd(t.Context(), beats, redis.Z{Score: died, Member: processes[0]}).Err())
	}
	_, out, _ := s.command("", "doctor")
	require.Contains(t, out, "problem  fleet: api: 1 call waits, and no process is alive in this Redis to make the calls.\n         fleetpace why api\n")
	require.Contains(t, out, "note     fleet: done: No process is alive in this Redis to make calls: 1 died in the last ten minutes. Nothing waits here\n")
	require.Regexp(t, `(?m)^- +1/hour +1 .* not known +-$`, s.does("show", "api"), "no forecast, as no process makes calls")
}

// Calls that wait during a pause are no problem, but whoever looks for the cause reads it here.
func TestDoctorNamesPauses(t *testing.T) {
	t.Parallel()
	s := newScene(t, redistest.Mini(t))
	l := s.limiter("api", "100/s")
	stop := s.works(l)
	s.known("api")
	_, out, _ := s.command("", "doctor")
	stop()
	require.Contains(t, out, "limits: 1, processes alive: 1 (compare with what you deployed); they fit together, and no limit is stopped, paused, overridden or used up\n")
	keyed := s.limiter("keyed", "100/s")
	require.NoError(t, keyed.For("a").Wait(t.Context()))
	require.Eventually(t, func() bool {
		_, out, _ := s.command("", "doctor")
		return strings.Contains(out, "no limit is stopped, paused, overridden or used up; keys were not looked at\n")
	}, 20*time.Second, 20*time.Millisecond)
	require.NoError(t, l.Pause(t.Context(), time.Hour, "their status page is red"))
	_, out, _ = s.command("", "doctor")
	require.Regexp(t, `note     fleet: api: It is paused until .* their status page is red.*\n         fleetpace why api\n`, out)
	s.does("set", "api", "--to", "200/s", "--for", "1h", "-y") // a faster one holds nothing back
	_, out, _ = s.command("", "doctor")
	require.Regexp(t, `note     fleet: api: The limit was set to 200/s by .*, for \S+ more; the configured limit is 100/s\.\n         fleetpace reset api\n`, out)
}

// What why finds wrong, doctor does not find well. A fleet that has ended is named.
func TestDoctorAgreesWithWhy(t *testing.T) {
	t.Parallel()
	s := newScene(t, redistest.New(t))
	slots := s.limiter("slots", "1 at once")
	_, err := slots.Acquire(t.Context(), 1)
	require.NoError(t, err)
	ago := func(d time.Duration) int64 {
		now, err := s.client.Time(t.Context()).Result()
		require.NoError(t, err)
		return now.Add(-d).UnixMicro()
	}
	taken := func(d time.Duration) { // the slot, so long ago
		log := lua.Keys(s.prefix, "", "slots", "s", "")[2]
		held, err := s.client.ZRange(t.Context(), log, 0, -1).Result()
		require.NoError(t, err)
		require.Len(t, held, 1)
		require.NoError(t, s.client.ZAdd(t.Context(), log, redis.Z{Score: float64(ago(d)), Member: held[0]}).Err())
	}
	taken(-time.Hour) // just now, also where this test is slow
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	waiting.Go(func() { _, _ = slots.Acquire(ctx, 1) })
	t.Cleanup(func() { cancel(); waiting.Wait() })
	for name, limit := range map[string]string{"rolling": "1/hour rolling", "quota": "1/month quota"} {
		l := s.limiter(name, limit)
		require.NoError(t, l.Wait(t.Context()))
		s.wait(l, 1)
	}
	workers := newScene(t, redistest.New(t))
	workers.prefix = s.prefix
	ended := workers.limiter("ended", "100/s")
	require.NoError(t, ended.Wait(t.Context()))
	s.known("ended", "quota", "rolling", "slots")
	require.NoError(t, ended.Close())
	require.Eventually(t, func() bool {
		return strings.Contains(s.does("why"), "ended: No process is known to be alive in this Redis: the last one closed ")
	}, 20*time.Second, 20*time.Millisecond)
	code, out, _ := s.command("", "doctor")
	require.Regexp(t, `note     fleet: ended: No process is known to be alive in this Redis: the last one closed \S+ ago\. Nothing waits here\n         fleetpace why ended\n`, out)
	for _, name := range []string{"rolling", "quota"} {
		require.Regexp(t, `note     fleet: `+name+`: The limit of .* is used up: `, out)
	}
	require.NotContains(t, out, "fleet: slots: ", "it moves: %d", code)
	code, _, _ = s.command("", "why", "ended", "--exit-code")
	require.Zero(t, code, "nothing waits")
	taken(time.Minute)
	require.Eventually(t, func() bool { // the heartbeats had no gap for longer than a process may be silent
		since, err := s.client.HGet(t.Context(), lua.BeatKeys(s.prefix, "", "slots")[1], "since").Int64()
		return err == nil && since < ago(3*time.Second)
	}, 20*time.Second, 20*time.Millisecond)
	_, out, _ = s.command("", "doctor")
	require.Contains(t, out, "problem  fleet: slots: All 1 slots are held", "no call has taken a slot for ten seconds")
}

// Redis is full before the first process starts: it has no limit to show, and the command says why.
func TestFullBeforeTheFleetStarts(t *testing.T) {
	t.Parallel()
	s := newScene(t, redistest.Local(t, "--maxmemory-policy", "noeviction", "--save", "")) // of this test alone
	code, out, errs := s.command("", "why", "--exit-code")
	require.Equal(t, exitUnknown, code)
	require.Regexp(t, "^No limit is known: ", out)
	require.Empty(t, errs)
	require.Contains(t, s.does("why"), "No limit is known: ")
	require.NoError(t, s.client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	full := "Redis is full, and refuses to write, so each process follows its outage policy.\n"
	code, out, _ = s.command("", "why", "--exit-code")
	require.Equal(t, exitMustAct, code)
	require.Regexp(t, `^wrong  `+full+`       Whether .*\n       .* fleetpace doctor\n$`, out)
	for _, name := range [][]string{{"api"}, {"api", "acme"}, {"llm/api"}} {
		code, out, errs := s.command("", append([]string{"why", "--exit-code"}, name...)...)
		require.Equal(t, exitMustAct, code, errs)
		require.Regexp(t, `^`+full+`Whether .*\n.* fleetpace doctor\n$`, out)
	}
	require.Regexp(t, `^No limit is known\. `+full+`.*fleetpace doctor\n$`, s.does("ls"))
	code, out, _ = s.command("", "doctor")
	require.Equal(t, exitMustAct, code)
	require.Regexp(t, `problem  memory: it is full`, out)
	require.Contains(t, out, "; processes that run could not write here\n")
	require.NotContains(t, out, "theirs is another Redis")
	require.NoError(t, s.client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	code, _, errs = s.command("", "why", "api")
	require.Equal(t, exitUnknown, code, errs)
}

// While Redis is full, ls, show and top say so, and ls does not say that no process is alive.
func TestListsOfAFullRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Local(t, "--maxmemory-policy", "noeviction", "--save", "") // of this test alone
	s := newScene(t, server)
	worker := *s
	worker.client = server.Client(t)
	require.NoError(t, worker.limiter("api", "100/s").Wait(t.Context()))
	s.known("api")
	beats := lua.BeatKeys(s.prefix, "", "api")[0]
	require.NoError(t, s.client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	require.Contains(t, s.does("show", "api"), "  Redis is full, and refuses to write, so each process follows its outage policy. ")
	code, _, errs := s.command("", "top", "--by", "flow")
	require.Zero(t, code)
	require.Contains(t, errs, "Redis is full, and refuses to write")
	processes, err := s.client.ZRange(t.Context(), beats, 0, -1).Result()
	require.NoError(t, err)
	require.NoError(t, worker.client.Close())
	require.NoError(t, s.client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	require.NoError(t, s.client.ZAdd(t.Context(), beats, redis.Z{Score: 1, Member: processes[0]}).Err())
	require.NoError(t, s.client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	require.Regexp(t, `(?m)^api .* not known +ERROR: Redis is full`, s.does("ls"))
	require.Regexp(t, `s ago, Redis refuses to write`, s.does("show", "api"))
	require.NoError(t, s.client.ConfigSet(t.Context(), "maxmemory", "0").Err())
}

// Doctor names the processes of each version, and says what a mixture means.
func TestVersionsOfProcesses(t *testing.T) {
	some := func(names ...string) map[string]string {
		all := map[string]string{}
		for _, name := range names {
			all[name] = name
		}
		return all
	}
	for _, c := range []struct {
		v           versions
		others      bool
		level, says string
	}{
		{versions{lua.Protocol: some("a/1", "b/2")}, false, "ok", "protocol 3: a/1, b/2"},
		{versions{lua.Protocol: some("a/1")}, true, "note", "of another version of fleetpace than this command"},
		{versions{lua.Protocol: some("a/1", "b/2", "c/3", "d/4", "e/5")}, false, "ok", "a/1, b/2, c/3 and 2 more"},
		{versions{lua.Protocol: some("a/1"), lua.Protocol + 1: some("b/2")}, true, "note", "protocol 3: a/1; protocol 4: b/2. They share limits"},
		{versions{lua.Protocol: some("a/1"), lua.Protocol + 2: some("b/2")}, false, "problem", "cannot share limits"},
		{versions{2: some(), lua.Protocol: some("b/2")}, false, "problem", "protocol 2: names not known; protocol 3: b/2. They cannot share"},
		{versions{2: some("a/1")}, false, "note", "They are of fleetpace v0.2"},
		{versions{lua.Protocol + 1: some("a/1")}, false, "note", "This command speaks protocol 3"},
	} {
		all := c.v.findings(c.others)
		require.Len(t, all, 1)
		require.Equal(t, c.level, all[0].Level, all)
		require.Contains(t, all[0].Text, c.says)
		require.Equal(t, c.level == "ok", all[0].Do == "")
	}
	require.Empty(t, versions{}.findings(true), "where nobody lives")
}

// Processes in another database of the server are found, and processes of v0.2 are marked.
func TestDoctorOfOtherDatabasesAndVersions(t *testing.T) {
	t.Parallel()
	server := redistest.Local(t, "--save", "") // of this test alone
	s := newScene(t, server)
	s.works(s.limiter("api", "100/s"))
	s.known("api")
	_, out, _ := s.command("", "doctor")
	require.Regexp(t, fmt.Sprintf(`(?m)^ok       versions: protocol %d: \S+/%d$`, lua.Protocol, os.Getpid()), out)
	require.NotContains(t, out, "database")
	require.NoError(t, s.client.ScriptFlush(t.Context()).Err())
	require.Contains(t, s.does("show", "api"), "PROTOCOL")
	require.Regexp(t, `(?m) 100/s +3 +local `, s.does("show", "api"))

	away := *s
	away.url = "redis://" + server.Addr() + "/1"
	_, out, _ = away.command("", "doctor")
	require.Contains(t, out, "note     fleet: database 0 of this server has limits under the same prefix, such as api; processes there share nothing with those of database 1\n         compare the end of each Redis URL: /0 or /1\n")

	old := frozen.V02{Client: s.client, Prefix: s.prefix, Name: "api", Process: "old", Interval: 10 * time.Millisecond, Burst: 1}
	require.NoError(t, old.Beat(t.Context(), false))
	s.repeats(func(ctx context.Context) { _ = old.Beat(ctx, false) }) // so that it lives
	require.Regexp(t, `(?m)^old +desk +4711 .* 2 \(v0\.2\) `, s.does("show", "api"))
	_, out, _ = s.command("", "doctor")
	require.Regexp(t, `problem  versions: protocol 2: desk/4711; protocol 3: \S+\. They cannot share limits`, out)
}

// A key that no call uses is named as such, also where calls use no keys at all.
func TestPauseOfAnUnusedKey(t *testing.T) {
	t.Parallel()
	s := newScene(t, redistest.Mini(t))
	l := s.limiter("api", "100/s")
	require.NoError(t, l.Wait(t.Context()))
	s.known("api")
	require.Contains(t, s.does("pause", "api", "acme", "-y"), "no process has used this key lately, and its calls use no keys")
}

// A database of a server is a place of its own.
func TestAddressNamesTheDatabase(t *testing.T) {
	for url, want := range map[string]string{
		"redis://localhost:7750": "localhost:7750", "redis://u:secret@localhost:7750/0": "localhost:7750", "redis://localhost:7750/1": "localhost:7750/1",
		"unix:///run/redis.sock": "/run/redis.sock",
	} {
		require.Equal(t, want, address(url), url)
	}
}

// Whichever right is missing, doctor says so with the line that gives it, makes its other checks, and leaves nothing behind.
func TestDoctorWithoutOneRight(t *testing.T) {
	t.Parallel()
	server := redistest.Local(t, "--save", "") // of this test alone
	s := newScene(t, server)
	require.NoError(t, s.limiter("api", "100/s").Wait(t.Context()))
	s.known("api")
	rules := strings.Fields(lua.ACL(s.prefix))
	for _, missing := range rules {
		if !strings.HasPrefix(missing, "+") {
			continue
		}
		words := []any{"ACL", "SETUSER", "bob", "reset", "on", ">x"}
		for _, rule := range rules {
			if rule != missing {
				words = append(words, rule)
			}
		}
		words = append(words, "+ping", "+info", "+scan")
		require.NoError(t, s.client.Do(t.Context(), words...).Err())
		bob := *s
		bob.url = "redis://bob:x@" + server.Addr()
		code, out, errs := bob.command("", "doctor")
		require.Empty(t, errs, missing)
		require.Contains(t, out, " memory: ", missing)
		require.Equal(t, exitMustAct, code, missing)
		require.Regexp(t, `problem  rights: this user may not do .*\n         redis-cli .* ACL SETUSER bob .*`+regexp.QuoteMeta(missing), out, missing)
		slow := strings.Count(out, "problem  latency") // this machine may be
		require.Equal(t, 1, strings.Count(out, "problem")-slow, "%s: one line to type gives all rights: %s", missing, out)
		left, err := s.client.PTTL(t.Context(), s.prefix+":doctor").Result()
		require.NoError(t, err)
		require.NotEqual(t, time.Duration(-1), left, "%s: a key without an end", missing)
	}
	_, out, _ := s.command("", "doctor")
	require.Contains(t, out, "ok       rights")
}

// The rights are for the user of the client, and no shell reads a name as something else.
func TestRightsAreForTheUser(t *testing.T) {
	for url, want := range map[string]string{
		"redis://h": "default", "redis://ann:x@h": "ann", "redis://sentinels:x@h?master_name=m&username=ann&password=y": "ann",
		"redis://ann:x@h?addr=i:1": "ann", "redis://a$b%3Bid:x@h": "'a$b;id'",
	} {
		client, err := connect(url)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(grants(userOf(client), "p"), "redis-cli ACL SETUSER "+want+" '~p:*' "), url)
		require.NoError(t, client.Close())
	}
}
