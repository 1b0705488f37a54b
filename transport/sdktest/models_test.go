//go:build models

package sdktest_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/fleetpace/fleetpace/embedded"
	"github.com/fleetpace/fleetpace/llm"
	"github.com/fleetpace/fleetpace/reservetest/emulator"
)

// account is an emulated account that may have no credit.
type account interface {
	http.Handler
	Report() emulator.Report
	Resume()
}

func answers(input, cached, output int, wait time.Duration) emulator.Wire {
	return emulator.Wire{Answer: func(emulator.Call) emulator.Answer {
		return emulator.Answer{Input: input, CacheRead: cached, Output: output, Wait: wait, PerSecond: 100}
	}}
}

// Processes of agents share an account by the official SDKs, in real time. For half of the time they use it. Then it has no
// credit for ten seconds. All agents that wait know that within two seconds, and no SDK repeats a call. After a Resume they
// use the account again. Without FLEETPACE_LONG the fleets are small, and how much they use is not judged.
func TestModels(t *testing.T) {
	processes, agents, half := 2, 8, 6*time.Second
	long := os.Getenv("FLEETPACE_LONG") != ""
	if long {
		processes, agents, half = 8, 64, time.Minute
	}
	claude, err := emulator.NewAnthropic(emulator.AnthropicConfig{Requests: 2000, Input: 1_500_000, Output: 300_000, Wire: answers(20_000, 60_000, 800, 4*time.Second)})
	require.NoError(t, err)
	gpt, err := emulator.NewOpenAI(emulator.OpenAIConfig{Requests: 5000, Tokens: 2_000_000, Wire: answers(3000, 0, 400, time.Second)})
	require.NoError(t, err)
	gemini, err := emulator.NewGemini(emulator.GeminiConfig{Requests: 1000, Input: 2_000_000, Wire: answers(3000, 0, 400, time.Second)})
	require.NoError(t, err)
	for _, c := range []struct {
		sdk       string
		api       account
		stop      func()
		perMinute float64 // calls that are possible
	}{
		{"anthropic-sdk-go", claude, func() { claude.Stop(emulator.AnthropicCredit) }, 75},
		{"openai-go", gpt, func() { gpt.Stop("credit_balance_exhausted") }, 2_000_000. / 4096},
		{"genai", gemini, gemini.Stop, 2_000_000. / 3000},
	} {
		t.Run(c.sdk, func(t *testing.T) {
			if !long {
				t.Parallel()
			}
			client := startRedis(t)
			server := httptest.NewServer(c.api)
			t.Cleanup(server.Close)
			var stopped atomic.Bool
			says := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if stopped.Load() {
					w.WriteHeader(http.StatusGone)
				}
			}))
			t.Cleanup(says.Close)
			begins := time.Now().Add(time.Second)
			o := orders{SDK: c.sdk, Stopped: says.URL, Redis: "redis://" + client.Options().Addr, API: server.URL, Agents: agents, Stops: begins.Add(half), Ends: begins.Add(2*half + 10*time.Second)}
			text, err := json.Marshal(o)
			require.NoError(t, err)
			at := func(after time.Duration, do func()) { time.AfterFunc(time.Until(begins)+after, do) }
			var mu sync.Mutex
			var all [4]int      // calls at the ends of the two phases
			var inFlight int    // calls as the credit ends
			var first time.Time // when the first call was refused
			admitted := func(i int) func() {
				return func() {
					mu.Lock()
					defer mu.Unlock()
					all[i] = c.api.Report().Admitted
				}
			}
			at(half/2, admitted(0)) // the fleet has learned what calls cost
			at(half-10*time.Millisecond, func() {
				admitted(1)()
				mu.Lock()
				inFlight = c.api.Report().Open
				mu.Unlock()
				stopped.Store(true)
				c.stop()
				for len(c.api.Report().Refused) == 0 && t.Context().Err() == nil {
					time.Sleep(10 * time.Millisecond)
				}
				mu.Lock()
				defer mu.Unlock()
				first = time.Now()
			})
			at(half+10*time.Second, func() {
				c.api.Resume()
				set, err := llm.New(client, llm.Config{Account: "a", Preset: presets[c.sdk]})
				if assert.NoError(t, err) {
					assert.NoError(t, set.Resume(t.Context()))
					set.Close()
				}
			})
			at(half+20*time.Second, admitted(2))
			at(2*half+10*time.Second-10*time.Millisecond, admitted(3))
			cpu, own, fleets := cpuOf(t, client), computed(t, syscall.RUSAGE_SELF), computed(t, syscall.RUSAGE_CHILDREN)
			var group errgroup.Group
			each := make([]told, processes)
			for i := range each {
				group.Go(func() error {
					cmd := exec.CommandContext(t.Context(), os.Args[0]) //nolint:gosec // this very test
					cmd.Env, cmd.Stderr = append(os.Environ(), ordersIn+"="+string(text)), os.Stderr
					out, err := cmd.Output()
					if err != nil {
						return fmt.Errorf("%w: %s", err, out)
					}
					return json.Unmarshal(out, &each[i])
				})
			}
			require.NoError(t, group.Wait())
			lasted := time.Since(begins).Seconds()
			cpu, own, fleets = (cpuOf(t, client)-cpu)/lasted, (computed(t, syscall.RUSAGE_SELF)-own)/lasted, (computed(t, syscall.RUSAGE_CHILDREN)-fleets)/lasted
			mu.Lock()
			defer mu.Unlock()
			known, perAgent := 0, 0
			for _, p := range each {
				perAgent = max(perAgent, p.PerAgent)
				assert.Empty(t, p.Errors)
				for _, at := range p.Known {
					if at.Before(first.Add(2 * time.Second)) {
						known++
					}
				}
			}
			report := c.api.Report()
			refused := 0
			for _, n := range report.Refused {
				refused += n
			}
			used := func(from, to int, seconds float64) float64 {
				return float64(all[to]-all[from]) / (c.perMinute / 60 * seconds)
			}
			before, after := used(0, 1, half.Seconds()/2), used(2, 3, half.Seconds()-10)
			t.Logf("MEASURE %s: %d agents in %d processes: used %.3f, %.3f from 10 s after the Resume on; %d calls, %d refused, %d after the first refusal (%d in flight); %d agents know within 2 s; %d KB for each agent; of a core, Redis uses %.3f, the account %.2f, and the fleet %.2f",
				c.sdk, processes*agents, processes, before, after, report.Admitted, refused, report.AfterStop, inFlight, known, perAgent/1000, cpu, own, fleets)
			assert.LessOrEqual(t, report.AfterStop, inFlight+processes)
			assert.Equal(t, report.AfterStop+1, refused, "others than those of the stop")
			assert.GreaterOrEqual(t, known+inFlight, processes*agents, "all that wait")
			if long { // otherwise the fleet ends before
				assert.GreaterOrEqual(t, before, 0.95)
				assert.GreaterOrEqual(t, after, 0.95)
			}
		})
	}
}

// startRedis starts a Redis: the real one of this machine, or else an embedded one.
func startRedis(t *testing.T) *redis.Client {
	t.Helper()
	address := ""
	if path, err := exec.LookPath("redis-server"); err == nil {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		address = listener.Addr().String()
		require.NoError(t, listener.Close())
		_, port, _ := strings.Cut(address, ":")
		cmd := exec.CommandContext(t.Context(), path, "--port", port, "--save", "", "--dir", t.TempDir()) //nolint:gosec // a server of this machine
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Wait() }) // the test's context ends it before
	} else {
		server, err := embedded.Start("127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(server.Close)
		address = server.Addr()
	}
	client := redis.NewClient(&redis.Options{Addr: address})
	t.Cleanup(func() { _ = client.Close() })
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.NoError(c, client.Ping(t.Context()).Err()) }, 10*time.Second, 20*time.Millisecond)
	return client
}

// computed returns how many seconds this process, or its children that have ended, have computed.
func computed(t *testing.T, who int) float64 {
	t.Helper()
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(who, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// cpuOf returns how many seconds Redis has computed, if it says so.
func cpuOf(t *testing.T, client *redis.Client) (seconds float64) {
	t.Helper()
	info, _ := client.Info(t.Context(), "cpu").Result() // an embedded one does not say
	for _, name := range []string{"used_cpu_sys:", "used_cpu_user:"} {
		_, after, _ := strings.Cut(info, name)
		var x float64
		_, _ = fmt.Sscan(after, &x)
		seconds += x
	}
	return seconds
}
