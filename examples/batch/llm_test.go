package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// somePrompts is a file with the first n prompts of the sample.
func somePrompts(t *testing.T, n int) string {
	t.Helper()
	var text strings.Builder
	for _, r := range samplePrompts(n) {
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

// TestLLM proves that worker processes do all records under three limits, that nothing is
// refused, and that the tightest limit is used up where calls are settled, and can not be
// where they are not.
func TestLLM(t *testing.T) {
	const n = 120
	in, out := somePrompts(t, n), filepath.Join(t.TempDir(), "out.jsonl")
	settled := runLLMChild(t, "-in", in, "-out", out)
	estimates := runLLMChild(t, "-in", in, "-out", filepath.Join(t.TempDir(), "estimates.jsonl"), "-no-settle")
	for _, rep := range []report{settled, estimates} {
		assert.Equal(t, n, rep.Done)
		assert.Equal(t, n, rep.Requests)
		assert.Zero(t, rep.Refused)
		assert.Equal(t, 4, rep.Processes)
		assert.Equal(t, "tokens", rep.Tightest)
		assert.Len(t, rep.Limits, 3)
		assert.Less(t, rep.Utilization, 1.1)
	}
	assert.Less(t, estimates.Utilization, 0.7, "as much as calls cost of their estimates")
	if settled.Stalled+estimates.Stalled < 0.05 {
		assert.Greater(t, settled.Utilization, estimates.Utilization+0.15)
	}

	used := 0
	for _, res := range readResults(t, out) {
		assert.Equal(t, statusDone, res.Status)
		var c completion
		require.NoError(t, json.Unmarshal(res.Answer, &c))
		used += c.Usage.TotalTokens
	}
	assert.Equal(t, settled.Used, used)

	again := runLLMChild(t, "-in", in, "-out", out)
	assert.Equal(t, n, again.Skipped)
	assert.Zero(t, again.Requests, "nothing is left to call")
}

// TestLLMCosts proves that no call costs more than its estimate, and most from 40 to 80 % of it.
func TestLLMCosts(t *testing.T) {
	estimated, used := 0, 0
	for _, r := range samplePrompts(1000) {
		var p prompt
		require.NoError(t, json.Unmarshal(r.Body, &p))
		u := p.usage(r.ID)
		assert.LessOrEqual(t, u.TotalTokens, p.estimate())
		assert.InDelta(t, 0.6, float64(u.TotalTokens)/float64(p.estimate()), 0.21)
		assert.Equal(t, u, p.usage(r.ID))
		estimated, used = estimated+p.estimate(), used+u.TotalTokens
	}
	assert.InDelta(t, 0.6, float64(used)/float64(estimated), 0.03)
	small := prompt{Prompt: strings.Repeat("long ", 400), MaxTokens: 1}
	assert.LessOrEqual(t, small.usage("x").TotalTokens, small.estimate())
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
	c := startChild(t, workerArgument)
	assert.Error(t, c.cmd.Wait())
	assert.Contains(t, c.stdout.String(), "run the program without "+workerArgument)
	_, err := parseFlags([]string{"-api", apiLLM, "-workers", "0"}, os.Stderr)
	assert.ErrorContains(t, err, "-workers 0: want 1 to 64")
	cfg, err := parseFlags([]string{"-api", apiLLM, "-workers", "5"}, os.Stderr)
	require.NoError(t, err)
	assert.Equal(t, 15, cfg.concurrency)
}
