package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/example"
	"github.com/fleetpace/fleetpace/llm"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport/bodies"
)

// somePrompts is a file with the first n prompts of the sample.
func somePrompts(t *testing.T, n int) string {
	t.Helper()
	var text strings.Builder
	for _, r := range example.SamplePrompts(n) {
		text.Write(r.Body)
		text.WriteString("\n")
	}
	path := filepath.Join(t.TempDir(), "prompts.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o644))
	return path
}

// runLLMChild runs the program to its end.
func runLLMChild(t *testing.T, args ...string) report {
	t.Helper()
	c := startChild(t, append([]string{"-api", apiLLM, "-json"}, args...)...)
	require.NoError(t, c.cmd.Wait())
	var rep report
	lines := strings.Split(strings.TrimSpace(c.stdout.String()), "\n")
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &rep))
	t.Logf("%s", lines[len(lines)-1])
	return rep
}

// TestLLM proves that worker processes do all records under two limits, each once, with
// and without settling, and that the report adds up. How much of the limits they used is
// a measurement.
func TestLLM(t *testing.T) {
	t.Parallel() // mostly waiting
	for name, more := range map[string][]string{"settled": nil, "estimates": {"-no-settle"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = 16
			in, out := somePrompts(t, n), filepath.Join(t.TempDir(), "out.jsonl")
			args := append([]string{"-in", in, "-out", out}, more...)
			rep := runLLMChild(t, args...)
			assert.Equal(t, n, rep.Done)
			assert.Equal(t, n+rep.Retried, rep.Requests, "each attempt is a call, and none is made twice")
			assert.GreaterOrEqual(t, rep.Retried, rep.Refused)
			assert.Equal(t, 4, rep.Processes)
			assert.Contains(t, llmNames, rep.Tightest)
			assert.Len(t, rep.Limits, 2)

			var done []string
			estimated, used := 0, 0
			for _, res := range readResults(t, out) {
				assert.Equal(t, example.Done, res.Status)
				done = append(done, res.ID)
				var c example.Completion
				require.NoError(t, json.Unmarshal(res.Answer, &c))
				used += c.Usage.TotalTokens
			}
			var want []string
			for _, r := range example.SamplePrompts(n) {
				want = append(want, r.ID)
				var p example.Prompt
				require.NoError(t, json.Unmarshal(r.Body, &p))
				estimated += p.Estimate()
			}
			assert.ElementsMatch(t, want, done, "one line per record")
			assert.Equal(t, used, rep.Used)
			assert.Equal(t, estimated, rep.Estimated)

			again := runLLMChild(t, args...)
			assert.Equal(t, n, again.Skipped)
			assert.Zero(t, again.Requests, "nothing is left to call")
		})
	}
}

// TestSettling proves that a call which is settled leaves the limit with all that it did not use of its estimate, and one
// which is not leaves it with nothing of that. The limit fills by a token a minute.
func TestSettling(t *testing.T) {
	t.Parallel() // mostly waiting
	const burst = 2500
	for name, counting := range map[string]llm.Counting{"settled": llm.CountReserved, "estimated": llm.CountSum} {
		t.Run(name, func(t *testing.T) {
			preset := llm.Preset{API: bodies.OpenAI, Model: "demo", Tokens: 1, Counting: counting, Burst: burst * time.Minute}
			model, err := example.StartLLM(reserve.PerSecond(100), reserve.PerSecond(6000).Burst(burst))
			require.NoError(t, err)
			defer func() { assert.NoError(t, model.Close()) }()
			server, err := example.OpenRedis(t.Context(), "")
			require.NoError(t, err)
			defer func() { assert.NoError(t, server.Close()) }()
			w := &llmWorker{
				setup: setup{API: model.URL, Preset: preset},
				api:   newAPIClient(model.URL, http.Header{}, 1), up: json.NewEncoder(io.Discard),
			}
			defer w.api.close()
			require.NoError(t, w.open(server))

			r := example.SamplePrompts(1)[0]
			require.NoError(t, w.process(t.Context(), r))
			w.set.Close() // the call is settled
			var p example.Prompt
			require.NoError(t, json.Unmarshal(r.Body, &p))
			left := burst - p.Usage(r.ID).TotalTokens
			if counting == llm.CountSum {
				left = burst - p.Estimate()
			}
			require.NoError(t, w.open(server))
			defer w.set.Close()
			tokens := w.set.Limits().Limits()[0]
			ok, err := tokens.AllowN(t.Context(), left)
			require.NoError(t, err)
			require.True(t, ok, "less than %d tokens are left", left)
			ok, err = tokens.Allow(t.Context())
			require.NoError(t, err)
			require.False(t, ok, "more than %d tokens are left", left)
		})
	}
}

// TestWrongPrompts proves that what no call could be made for is found before the first call.
func TestWrongPrompts(t *testing.T) {
	for want, line := range map[string]string{
		"want a prompt":              `{"id":"a","prompt":"","max_tokens":5}`,
		"max_tokens of at least 1":   `{"id":"a","prompt":"hello"}`,
		"want at most 2500":          `{"id":"a","prompt":"hello","max_tokens":2496}`,
		"record a: json: cannot":     `{"id":"a","prompt":"hello","max_tokens":"many"}`,
		"holds no records":           ``,
		`field "id" is empty: each `: `{"id":"","prompt":"hello","max_tokens":5}`,
	} {
		path := filepath.Join(t.TempDir(), "in.jsonl")
		require.NoError(t, os.WriteFile(path, []byte(line+"\n"), 0o644))
		_, err := readPrompts(&config{in: path, idField: "id"}, 2500)
		assert.ErrorContains(t, err, want)
	}
}

// TestWorkerIsNotForPeople proves that somebody who starts a worker is told what it is.
func TestWorkerIsNotForPeople(t *testing.T) {
	c := startChild(t, example.WorkerArgument)
	assert.Error(t, c.cmd.Wait())
	assert.Contains(t, c.stdout.String(), "run the program without "+example.WorkerArgument)
	_, err := parseFlags([]string{"-api", apiLLM, "-workers", "0"}, os.Stderr)
	assert.ErrorContains(t, err, "-workers 0: want 1 to 64")
	cfg, err := parseFlags([]string{"-api", apiLLM, "-workers", "5"}, os.Stderr)
	require.NoError(t, err)
	assert.Equal(t, 15, cfg.concurrency)
}
