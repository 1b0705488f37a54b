package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// scene is a Redis with limits that a process uses, and the command beside it.
type scene struct {
	*testing.T
	url, prefix string
	client      redis.UniversalClient
}

func newScene(t *testing.T, server *redistest.Server) *scene {
	return &scene{T: t, url: server.URL(), prefix: redistest.Prefix(t), client: server.Client(t)}
}

func (s *scene) limiter(name, limit string) *reserve.Limiter {
	s.Helper()
	parsed, err := reserve.ParseLimit(limit)
	require.NoError(s, err)
	l, err := reserve.New(s.client, reserve.Config{Name: name, Prefix: s.prefix, Limit: parsed})
	require.NoError(s, err)
	s.Cleanup(func() { _ = l.Close() })
	return l
}

// command runs the command with somebody who answers.
func (s *scene) command(answer string, args ...string) (code int, out, errs string) {
	s.Helper()
	var o, e bytes.Buffer
	a := &app{in: strings.NewReader(answer), out: &o, errs: &e, url: s.url, prefix: s.prefix}
	code = a.run(s.Context(), args)
	return code, o.String(), e.String()
}

// does runs the command, which must succeed.
func (s *scene) does(args ...string) string {
	s.Helper()
	code, out, errs := s.command("", args...)
	require.Zero(s, code, "%s%s", out, errs)
	return out
}

// shows waits until a limit is known.
func (s *scene) shows(name string) {
	s.Helper()
	require.Eventually(s, func() bool {
		code, _, _ := s.command("", "show", name)
		return code == 0
	}, 20*time.Second, 20*time.Millisecond)
}

// known waits for the first heartbeat of each name. By then, a process may be idle that has used one of them: see works.
func (s *scene) known(names ...string) {
	s.Helper()
	reader := fleet.New(s.client, s.prefix)
	defer reader.Close()
	require.Eventually(s, func() bool {
		all, err := reader.Names(s.Context())
		require.NoError(s, err)
		return len(all) == len(names) && !slices.ContainsFunc(all, func(n fleet.Name) bool {
			survey, err := reader.Survey(s.Context(), n)
			require.NoError(s, err)
			return len(survey.Processes) == 0
		})
	}, 20*time.Second, 20*time.Millisecond)
}

// works lets a process call until the test ends, or stop is called. A process without calls for ten seconds is idle. Its
// calls may fail.
func (s *scene) works(l *reserve.Limiter) (stop func()) {
	return s.repeats(func(ctx context.Context) { _ = l.Wait(ctx) })
}

// repeats does something again and again, until the test ends or stop is called.
func (s *scene) repeats(does func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			does(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	stop = func() { cancel(); <-ended }
	s.Cleanup(stop)
	return stop
}

// wait lets so many calls wait until the test ends.
func (s *scene) wait(l *reserve.Limiter, calls int) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, calls)
	for range calls {
		go func() {
			_ = l.Wait(ctx)
			done <- struct{}{}
		}()
	}
	s.Cleanup(func() {
		cancel()
		for range calls {
			<-done
		}
	})
}

func TestLookingAndChanging(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		s := newScene(t, server)
		require.Equal(t, "[]\n", s.does("ls", "-o", "json"))
		openai, shop := s.limiter("openai", "1/hour"), s.limiter("shop", "100/s burst 5")
		require.NoError(t, openai.Wait(t.Context()))
		s.wait(openai, 3)
		require.NoError(t, shop.For("<script>\x1b[31m").Wait(t.Context()))
		s.known("openai", "shop")

		require.Eventually(t, func() bool {
			var lines []map[string]any
			require.NoError(t, json.Unmarshal([]byte(s.does("ls", "-o", "json")), &lines))
			require.Equal(t, "openai", lines[0]["name"])
			require.Equal(t, "1/hour", lines[0]["limit"])
			require.Equal(t, false, lines[0]["paused"])
			return lines[0]["waiting"] == 3.0
		}, 20*time.Second, 50*time.Millisecond)
		require.Contains(t, s.does("ls"), "100/s burst 5")
		shown := s.does("show", "shop", "<script>\x1b[31m")
		require.Contains(t, shown, "<script>?[31m", "what a terminal would act on is not written")
		require.Contains(t, s.does("show", "openai"), fmt.Sprint(os.Getpid()))

		var answer struct {
			Reason   string
			Evidence []string
		}
		require.NoError(t, json.Unmarshal([]byte(s.does("why", "openai", "-o", "json")), &answer))
		require.Equal(t, "queue", answer.Reason)
		require.NotEmpty(t, answer.Evidence)
		code, _, _ := s.command("", "why", "openai", "--exit-code")
		require.Zero(t, code, "a queue is no problem")
		require.Contains(t, s.does("why", "shop"), "Nothing holds it back")

		// A change says what it will do, and asks.
		code, _, errs := s.command("n\n", "pause", "openai", "--for", "1h", "--reason", "status page is red")
		require.Equal(t, exitRefused, code)
		require.Contains(t, errs, "pause openai for 1h0m0s")
		require.Contains(t, s.does("why", "openai"), "It is the queue")
		code, _, _ = s.command("y\n", "pause", "openai", "--for", "1h", "--reason", "status page is red")
		require.Zero(t, code)
		require.Contains(t, s.does("why", "openai"), "status page is red (by ")
		require.Contains(t, s.does("ls"), "status page is red")
		s.does("resume", "openai", "-y")
		require.NotContains(t, s.does("ls"), "status page is red")
		s.does("set", "openai", "--to", "10/day", "--for", "1h", "-y")
		set := s.does("why", "openai")
		require.Contains(t, set, "set to 10/day by ")
		require.Contains(t, s.does("show", "openai"), "10/day (overridden)")
		require.Regexp(t, `(?m)^  OVERRIDDEN: The limit was set to 10/day by \S+, .*; the configured limit is 1/hour\.$`, s.does("show", "openai"))
		require.Regexp(t, `(?m)^CHANGED +KEY +WHAT +BY\n.* - +set to 10/day for 1h0m0s +\S+@`, s.does("show", "openai"))
		s.does("reset", "openai", "-y")
		require.NotContains(t, s.does("why", "openai"), "was set")
		// A change that concerns no call says so.
		require.NotContains(t, s.does("resume", "openai", "-y"), "But ")
		require.Contains(t, s.does("resume", "shop", "-y"), "But its calls use keys")
		require.Contains(t, s.does("resume", "shop", "mistyped", "-y"), "But no process has used this key lately")
		require.NotContains(t, s.does("resume", "shop", "<script>\x1b[31m", "-y"), "But ")
		require.Contains(t, s.does("top", "-o", "json", "--by", "flow"), "[]")
		require.Contains(t, s.does("top", "openai"), "openai")
		require.NoError(t, openai.Close())
		require.Regexp(t, fmt.Sprintf(`%d +closed .* -\n`, os.Getpid()), s.does("show", "openai"))

		slow := s.limiter("slow", "5/day burst 5").For("acme") // nothing comes meanwhile
		require.NoError(t, slow.WaitN(t.Context(), 3))
		s.shows("slow")
		require.Contains(t, s.does("refill", "slow", "acme", "-y"), "make all 5 permits of slow/acme available instead of 2")
		require.Contains(t, s.does("reset", "slow", "acme", "-y"), "there is none, and its limit")
		state, err := slow.State(t.Context())
		require.NoError(t, err)
		require.Equal(t, 5., state.Stored)
		_, err = s.limiter("batch", "5 at once").Acquire(t.Context(), 1)
		require.NoError(t, err)
		s.shows("batch")
		code, _, errs = s.command("", "refill", "batch", "-y")
		require.Equal(t, exitUsage, code)
		require.Contains(t, errs, "use fleetpace release")
	})
}

// A key may be given with a slash, and is shown even if it is not used.
func TestShowOfAKey(t *testing.T) {
	t.Parallel()
	s := newScene(t, redistest.New(t))
	l := s.limiter("shop", "100/s")
	require.NoError(t, l.For("used").Wait(t.Context()))
	s.known("shop")
	for _, args := range [][]string{{"show", "shop/mine"}, {"show", "shop", "mine"}} {
		var look struct{ Rows []struct{ Key string } }
		require.NoError(t, json.Unmarshal([]byte(s.does(append(args, "-o", "json")...)), &look))
		require.Len(t, look.Rows, 1, "%v", args)
		require.Equal(t, "mine", look.Rows[0].Key, "%v", args)
	}
}

// Each long flag of each command may have one dash.
func TestFlagsWithOneDash(t *testing.T) {
	root := (&app{}).root()
	for _, c := range append(root.Commands(), root) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			require.Equal(t, []string{c.Name(), "--" + f.Name, "--" + f.Name + "=x"}, single(root, []string{c.Name(), "-" + f.Name, "-" + f.Name + "=x"}))
		})
	}
	others := []string{"why", "-y", "-n", "2", "-", "--", "-o", "json", "--limit"}
	require.Equal(t, others, single(root, others))
}

func TestReleaseOfASlot(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		s := newScene(t, server)
		l := s.limiter("browser", "1 at once")
		held, err := l.Acquire(t.Context(), 1)
		require.NoError(t, err)
		defer held.Release()
		s.known("browser")
		got := make(chan error, 1)
		go func() {
			second, err := l.Acquire(t.Context(), 1)
			if err == nil {
				second.Release()
			}
			got <- err
		}()
		require.Eventually(t, func() bool { return strings.Contains(s.does("why", "browser"), "All 1 slots are held") },
			20*time.Second, 50*time.Millisecond)
		state, err := l.State(t.Context())
		require.NoError(t, err)
		require.Len(t, state.Holders, 1)
		slot := fleet.SlotID(state.Holders[0].Process, state.Holders[0].Number)
		require.Contains(t, s.does("show", "browser"), slot)
		code, _, errs := s.command("", "release", "browser", "nobody:1", "-y")
		require.Equal(t, exitUnknown, code)
		require.Contains(t, errs, `no such slot: "nobody:1"`)
		s.does("release", "browser", slot, "-y")
		require.NoError(t, <-got)
	})
}

// Where nobody can be asked, nothing is changed, and the exit code says that it was not confirmed.
func TestNobodyToAsk(t *testing.T) {
	s := newScene(t, redistest.New(t))
	l := s.limiter("api", "1/s")
	require.NoError(t, l.Wait(t.Context()))
	s.known("api")
	none, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer func() { _ = none.Close() }()
	for _, args := range [][]string{{"pause", "api"}, {"stop", "api"}, {"resume", "api"}, {"set", "api", "--to", "2/s"}} {
		var errs bytes.Buffer
		a := &app{in: none, out: io.Discard, errs: &errs, url: s.url, prefix: s.prefix}
		require.Equal(t, exitRefused, a.run(t.Context(), args), "%v: %s", args, errs.String())
		require.Contains(t, errs.String(), "nothing was changed, because the input is no terminal: pass -y to confirm")
	}
}

func TestWrongArguments(t *testing.T) {
	server := redistest.New(t)
	s := newScene(t, server)
	l := s.limiter("api", "1/s")
	require.NoError(t, l.Wait(t.Context()))
	s.known("api")
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitUnknown, "in the Redis at " + address(s.url) + " under the prefix \"" + s.prefix + "\" there are: api", []string{"show", "apis"}},
		{exitUnknown, "there are: api; if the limit should be here, check --redis and --prefix)", []string{"why", "apis"}},
		{exitUsage, "unknown flag", []string{"ls", "--nonsense"}},
		{exitUsage, "must be text or json", []string{"ls", "-o", "xml"}},
		{exitUsage, "usage:", []string{"show"}},
		{exitUsage, "above 0", []string{"pause", "api", "--for", "-1s", "-y"}},
		{exitUsage, "--until: must be later than now", []string{"set", "api", "--to", "10/s", "--until", "2001-01-01T00:00:00Z", "-y"}},
		{exitUsage, "--until: must not be given together with for", []string{"set", "api", "--to", "10/s", "--until", "2101-01-01T00:00:00Z", "--for", "1h", "-y"}},
		{exitUsage, "--to", []string{"set", "api", "--to", "many", "-y"}},
		{exitUsage, "kind", []string{"set", "api", "--to", "2 at once", "-y"}},
		{exitUsage, "--by", []string{"top", "--by", "size"}},
		{exitUsage, "at least 1", []string{"top", "-n", "0"}},
		{exitUsage, "100ms", []string{"watch", "--every", "1ms"}},
		{exitUsage, "unknown command", []string{"pauze"}},
	} {
		code, _, errs := s.command("", c.args...)
		require.Equal(t, c.code, code, "%v: %s", c.args, errs)
		require.Contains(t, errs, c.says, "%v", c.args)
	}
}

// The exit code of why says whether somebody must act. A queue moves, and a pause ends by itself.
func TestExitCodeOfWhy(t *testing.T) {
	s := newScene(t, redistest.New(t))
	limits := map[string]*reserve.Limiter{}
	for name, limit := range map[string]string{"free": "100/s", "paused": "100/s", "used": "1/hour", "quota": "1/day quota",
		"slots": "1 at once", "waiting": "1/hour", "waiting-paused": "100/s", "broken": "100/s", "stopped": "100/s"} {
		l := s.limiter(name, limit)
		held, err := l.Acquire(t.Context(), 1)
		require.NoError(t, err)
		defer held.Release()
		limits[name] = l
	}
	for _, name := range []string{"paused", "waiting-paused"} {
		require.NoError(t, limits[name].Pause(t.Context(), time.Hour, ""))
	}
	require.NoError(t, limits["stopped"].Stop(t.Context(), time.Time{}, "no credit"))
	for _, name := range []string{"waiting", "waiting-paused"} {
		s.wait(limits[name], 2)
		require.Eventually(t, func() bool {
			state, err := limits[name].State(t.Context())
			return err == nil && state.Waiting == 2
		}, 20*time.Second, 20*time.Millisecond)
	}
	s.known("free", "paused", "used", "quota", "slots", "waiting", "waiting-paused", "broken", "stopped")
	require.NoError(t, s.client.Set(t.Context(), lua.Keys(s.prefix, "", "broken", "p", "")[0], "mine", 0).Err())
	for name, want := range map[string]int{"free": 0, "paused": 0, "used": 0, "quota": 0, "slots": 0,
		"waiting": 0, "waiting-paused": 0, "broken": exitMustAct, "stopped": exitMustAct} {
		code, out, errs := s.command("", "why", name, "--exit-code")
		require.Equal(t, want, code, "%s: %s%s", name, out, errs)
	}
	require.Contains(t, s.does("ls"), "calls fail: hard stop: no credit")
	require.Contains(t, s.does("resume", "stopped", "-y"), "done: end the stop of stopped")
	require.Contains(t, s.does("why", "paused"), "It is paused", "what would hold a call back is said all the same")
	code, out, errs := s.command("", "why", "--exit-code")
	require.Equal(t, exitMustAct, code, errs)
	require.Regexp(t, `(?s)^wrong  broken: .*\nwaits  waiting-paused: It is paused.*\n       .*fleetpace resume waiting-paused\n.*\nnote   waiting: .*\nNothing holds back calls of 3 of 9 limits\.\n$`, out)
	for why, want := range map[fleet.Why]bool{fleet.WhyNobody: true, fleet.WhySlots: true, fleet.WhyDiffer: true, fleet.WhyUsedUp: false, fleet.WhySet: false, fleet.WhyHeldBy: false} {
		require.Equal(t, want, mustAct(&fleet.Answer{Reason: why, Held: 1, Severity: fleet.SeverityStop}), why)
		require.False(t, mustAct(&fleet.Answer{Reason: why, Severity: fleet.SeverityLook}), why)
	}
	require.Contains(t, s.does("why", "quota"), "for example: fleetpace set quota --to '2/day quota' --until ")
	code, _, errs = s.command("", "set", "quota", "--to", "20/day", "-y")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, `--to: quota is of kind quota, and "20/day" is of kind paced: add "quota"`)
	none := "no process has used a limit lately in the Redis at " + address(s.url) + " under the prefix \"nobody\""
	want := "No limit is known: " + none + ".\nStart the workers. If they run, give their --redis and --prefix, and run: fleetpace doctor\n"
	require.Equal(t, want, s.does("why", "--prefix", "nobody"))
	require.Equal(t, want, s.does("ls", "--prefix", "nobody"))
	require.Contains(t, s.does("doctor", "--prefix", "nobody"), "note     fleet: "+none)
	code, _, errs = s.command("", "why", "quota", "--prefix", "nobody")
	require.Equal(t, exitUnknown, code)
	require.Contains(t, errs, none)
}

// A time or a limit where a KEY is expected is a flag that was forgotten. Each command that takes
// a KEY says what to write, and a key of that name is reached behind a slash.
func TestWordsThatAreNoKeys(t *testing.T) {
	s := newScene(t, redistest.New(t))
	l := s.limiter("api", "1/s")
	slots := s.limiter("browser", "1 at once")
	require.NoError(t, l.Wait(t.Context()))
	held, err := slots.Acquire(t.Context(), 1)
	require.NoError(t, err)
	defer held.Release()
	s.known("api", "browser")
	takeKeys := 0
	for _, c := range (&app{}).root().Commands() {
		if !strings.Contains(c.Use, "[KEY") {
			continue
		}
		takeKeys++
		for _, word := range []string{"20s", "1h30m", "1.5h", "-5s", "500ms", "10min", "90sec", "2 hours", "1d", "3weeks", "50/s", "600/minute burst 20", "2 at once"} {
			args := []string{c.Name(), "api", "-y"}
			if c.Flags().Lookup("yes") == nil {
				args = args[:2]
			}
			if args = append(args, "--", word); c.Name() == "release" {
				args = append(args, "p:1")
			}
			code, _, errs := s.command("", args...)
			require.Equal(t, exitUsage, code, "%v: %s", args, errs)
			require.Contains(t, errs, fmt.Sprintf("%q reads as", word), "%v", args)
			require.Contains(t, errs, "api/"+word, "%v: a key of that name", args)
		}
	}
	require.Equal(t, 9, takeKeys, "show, why, pause, stop, resume, refill, set, reset, release")
	code, _, errs := s.command("", "pause", "api", "20s", "-y")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, `KEY: "20s" reads as a time; write fleetpace pause api --for 20s if it is one; write fleetpace pause api/20s if it is the name of a key`)
	_, _, errs = s.command("", "pause", "api", "2 hours", "-y")
	require.Contains(t, errs, "pause api --for 2h0m0s")
	_, _, errs = s.command("", "set", "api", "50/s", "-y")
	require.Contains(t, errs, `KEY: "50/s" reads as a limit; write fleetpace set api --to "50/s"`)

	state, err := l.For("20s").State(t.Context())
	require.NoError(t, err)
	require.Zero(t, state.Paused, "nothing was changed")
	s.does("pause", "api/20s", "--for", "1h", "-y")
	state, err = l.For("20s").State(t.Context())
	require.NoError(t, err)
	require.NotZero(t, state.Paused, "a key may have that name")
	for _, key := range []string{"0", "4711", "1.5", "tenant-20s", "s", "20s.example.com", "a/b", "5e3", "2x"} {
		s.does("pause", "api", key, "-y")
	}
	code, _, errs = s.command("", "release", "browser", "20s", "-y")
	require.Equal(t, exitUnknown, code, "a slot is no key")
	require.Contains(t, errs, `no such slot: "20s"`)
}

func TestRedisThatDoesNotAnswer(t *testing.T) {
	s := &scene{T: t, url: "redis://:secret@127.0.0.1:1", prefix: "x"}
	code, _, errs := s.command("", "ls")
	require.Equal(t, exitAway, code)
	require.Contains(t, errs, "check --redis")
	require.NotContains(t, errs, "secret")
	code, out, errs := s.command("", "why", "api")
	require.Equal(t, exitAway, code)
	require.Contains(t, out, "Redis at 127.0.0.1:1 does not answer this command; if it is the fleet's Redis, ")
	require.NotContains(t, out, "secret")
	require.Empty(t, errs, "it is said")
	s.url = "redis://:secret@[::1"
	code, _, errs = s.command("", "ls")
	require.Equal(t, exitUsage, code)
	require.NotContains(t, errs, "secret")
}

func TestWithoutRedis(t *testing.T) {
	file := filepath.Join(t.TempDir(), "limits.yaml")
	s := &scene{T: t, url: "redis://127.0.0.1:1", prefix: "x"}
	require.NoError(t, os.WriteFile(file, []byte("limits:\n  - name: api\n    limit: 5/s\n"), 0o600))
	require.Contains(t, s.does("check", file), "1 limits, no errors")
	require.NoError(t, os.WriteFile(file, []byte("limits:\n  - {name: shop, limit: 2/s burst 30, key: \"{shop}/{token}\", flow: \"{tenant}\"}\n"), 0o600))
	require.Contains(t, s.does("check", file), "for each {shop}/{token}")
	require.NoError(t, os.WriteFile(file, []byte("limits:\n  - name: api\n    limit: many\n"), 0o600))
	code, _, errs := s.command("", "check", file)
	require.NotZero(t, code)
	require.Contains(t, errs, "many")
	require.Contains(t, s.does("version"), "fleetpace ")
	require.Contains(t, s.does("completion", "bash"), "fleetpace")
	require.Contains(t, s.does("-h"), "why")
}

// Watching without a terminal writes lines until it is ended.
func TestWatchWithoutTerminal(t *testing.T) {
	server := redistest.New(t)
	s := newScene(t, server)
	l := s.limiter("api", "100/s")
	require.NoError(t, l.Wait(t.Context()))
	s.known("api")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, write := io.Pipe()
	a := &app{in: strings.NewReader(""), out: write, errs: io.Discard}
	done := make(chan int, 1)
	go func() {
		done <- a.run(ctx, []string{"-redis", s.url, "-prefix", s.prefix, "watch", "--every", "100ms"})
	}()
	var text strings.Builder
	buffer := make([]byte, 1000)
	for strings.Count(text.String(), "CALLS/S") < 3 {
		n, err := read.Read(buffer)
		require.NoError(t, err)
		text.Write(buffer[:n])
	}
	cancel()
	go func() { _, _ = io.Copy(io.Discard, read) }()
	require.Zero(t, <-done)
	require.Contains(t, text.String(), "api")
}

// The commands of the list before a deploy: all is well, then a new process does not fit, then it is gone.
func TestBeforeADeploy(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/upgrading.md")
	require.NoError(t, err)
	_, list, _ := strings.Cut(string(page), "### Before a deploy, and during it")
	list, _, _ = strings.Cut(list, "### ")
	server := redistest.New(t)
	s := newScene(t, server)
	s.works(s.limiter("api", "100/s"))
	s.known("api")
	steps := func(want int) {
		t.Helper()
		ran := 0
		for _, command := range regexp.MustCompile("`fleetpace ([^`]+)`").FindAllStringSubmatch(list, -1) {
			code, out, errs := s.command("", strings.Fields(strings.ReplaceAll(command[1], "LIMIT", "api"))...)
			ran++
			switch {
			case strings.HasPrefix(command[1], "doctor"): // it also judges the machine
				require.Equal(t, want != 0, strings.Contains(out, "problem  fleet"), out)
			case strings.HasPrefix(command[1], "why"):
				require.Equal(t, want, code, "%s: %s%s", command[1], out, errs)
			default:
				require.Zero(t, code, errs)
				require.Contains(t, out, "PROCESS")
			}
		}
		require.Equal(t, 7, ran)
	}
	steps(0)
	unfit, err := reserve.New(server.Client(t), reserve.Config{Name: "api", Prefix: s.prefix, Limit: reserve.Rolling(5, time.Minute), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.ErrorIs(t, unfit.Wait(t.Context()), reserve.ErrInvalid)
	stop := s.works(unfit)
	steps(exitMustAct) // the heartbeat that refused the call has noted it
	stop()
	require.NoError(t, unfit.Close()) // it has told Redis that the process ends
	steps(0)
}
