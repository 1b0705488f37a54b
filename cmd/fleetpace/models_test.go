//go:build clients

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reservetest/emulator"
)

// Four processes in Python and four in Node stream from an account, through the server. Their calls reserve what the
// request says and are settled to what the response states: none is refused, and none fails. Without FLEETPACE_LONG they
// are few agents for some seconds, and how much of the account they use is not judged.
func TestModelsInLanguages(t *testing.T) {
	agents, lasts, prompt := 8, 10*time.Second, 8000
	long := os.Getenv("FLEETPACE_LONG") != ""
	if long {
		agents, lasts = 64, 80*time.Second
	}
	root, err := filepath.Abs("../../clients")
	require.NoError(t, err)
	dist := filepath.Join(root, "typescript", "dist")
	require.NoError(t, exists(filepath.Join(dist, "fetch.js")), "the TypeScript client, built with npm run build")
	wire := emulator.Wire{Answer: func(emulator.Call) emulator.Answer {
		return emulator.Answer{Output: 200, Wait: time.Second, PerSecond: 100}
	}}
	claude, err := emulator.NewAnthropic(emulator.AnthropicConfig{Wire: wire, Requests: 2000, Input: 1_500_000, Output: 300_000})
	require.NoError(t, err)
	gpt, err := emulator.NewOpenAI(emulator.OpenAIConfig{Wire: wire, Requests: 5000, Tokens: 1_500_000})
	require.NoError(t, err)
	for _, c := range []struct {
		provider, limits string
		api              interface {
			http.Handler
			Report() emulator.Report
		}
		counts string // the limit that is used up
		rate   float64
	}{
		{"anthropic", "limits:\n" +
			"  - {name: requests, group: claude, limit: 2000/minute burst 100}\n" +
			"  - {name: input, group: claude, limit: 1500000/minute burst 250000, settles: true}\n" +
			"  - {name: output, group: claude, limit: 300000/minute burst 75000, settles: true}\n", claude, "input-tokens", 25_000},
		{"openai", "limits:\n" +
			"  - {name: requests, group: gpt, limit: 5000/minute burst 100}\n" +
			"  - {name: tokens, group: gpt, limit: 1500000/minute burst 250000}\n", gpt, "tokens", 25_000},
	} {
		t.Run(c.provider, func(t *testing.T) {
			server := redistest.New(t)
			s := serveTurnsOf(t, server, redistest.Prefix(t), c.limits, "127.0.0.1:0")
			api := httptest.NewServer(c.api)
			t.Cleanup(api.Close)
			var workers sync.WaitGroup
			var mu sync.Mutex
			var served, failed int
			run := func(name string, args ...string) {
				args = append(args, c.provider, s.address, api.URL, fmt.Sprint(agents), fmt.Sprint(lasts.Seconds()), fmt.Sprint(prompt))
				cmd := exec.CommandContext(t.Context(), name, args...) //nolint:gosec // a worker of this test
				cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(root, "python", "src"))
				cmd.Stderr = os.Stderr
				out, err := cmd.Output()
				assert.NoError(t, err)
				var ok, no int
				_, err = fmt.Sscan(string(out), &ok, &no)
				assert.NoError(t, err, "%s", out)
				mu.Lock()
				defer mu.Unlock()
				served, failed = served+ok, failed+no
			}
			for range 4 {
				workers.Go(func() { run("python3", "testdata/models.py") })
				workers.Go(func() { run("node", "testdata/models.mjs", dist) })
			}
			from, to := lasts*3/16, lasts*15/16 // 60 s of 80: the buckets are empty, and all processes run
			var levels [2]float64
			for i, at := range []time.Duration{from, to} {
				time.AfterFunc(at, func() {
					mu.Lock()
					defer mu.Unlock()
					levels[i] = c.api.Report().Limit(c.counts).Used
				})
			}
			workers.Wait()
			report := c.api.Report()
			used := (levels[1] - levels[0]) / (c.rate * (to - from).Seconds())
			t.Logf("MEASURE %s: %d agents in 8 processes: used %.3f, %d calls served, %d failed, refused %v", c.provider, 8*agents, used, served, failed, report.Refused)
			assert.Empty(t, report.Refused)
			assert.Zero(t, failed)
			assert.Positive(t, served)
			if long {
				assert.GreaterOrEqual(t, used, 0.95)
			}
		})
	}
}
