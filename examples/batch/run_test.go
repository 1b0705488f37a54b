package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/example"
)

// TestDemo proves that a run over the demo API, through an embedded Redis, gets
// every record done, accounts for each call and draws its picture. How much of the limit
// it used, and whether a call came too early to the API, is a matter of the machine, too.
func TestDemo(t *testing.T) {
	t.Parallel() // mostly waiting
	in, ids := someAddresses(t, 100, 4)
	dir := t.TempDir()
	stderr, err := os.Create(filepath.Join(dir, "stderr"))
	require.NoError(t, err)
	defer func() { assert.NoError(t, stderr.Close()) }()
	cfg, err := parseFlags([]string{
		"-in", in, "-out", filepath.Join(dir, "out.jsonl"), "-chart", filepath.Join(dir, "out.svg"), "-rate", "40/s burst 5", "-json", "-monitor", "127.0.0.1:0",
	}, stderr)
	require.NoError(t, err)

	shown := make(chan string, 1)
	go func() { shown <- pageOf(t.Context(), stderr.Name()) }()
	rep, err := run(t.Context(), cfg, stderr)
	require.NoError(t, err)
	assert.Contains(t, <-shown, "batch 127.0.0.1")
	assert.Equal(t, 100, rep.Records)
	assert.Equal(t, 100, rep.Done)
	assert.Zero(t, rep.Failed)
	assert.NoError(t, rep.missing())
	assert.GreaterOrEqual(t, rep.Retried, 4+rep.Refused)
	assert.Equal(t, 100+rep.Retried, rep.Requests, "each attempt is a call, and none is made twice")
	t.Logf("refused %d, utilization %g; %s", rep.Refused, rep.Utilization, rep.Text())

	var done []string
	for _, res := range readResults(t, cfg.out) {
		assert.Equal(t, example.Done, res.Status)
		var v example.Verdict
		require.NoError(t, json.Unmarshal(res.Answer, &v))
		assert.True(t, v.Deliverable)
		done = append(done, res.ID)
	}
	assert.ElementsMatch(t, ids, done)
	assert.FileExists(t, cfg.chart)

	var stdout bytes.Buffer
	require.NoError(t, rep.print(cfg, &stdout, stderr))
	var fields map[string]float64
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &fields), "stdout is one JSON object")
	for _, field := range []string{"records", "done", "refused", "seconds", "utilization", "bare_longest_ms", "bare_late_share"} {
		assert.Contains(t, fields, field)
	}
}

// child is the program in a process of its own.
type child struct {
	cmd            *exec.Cmd
	stdout, stderr *safeBuffer
}

// safeBuffer can be read while the child still writes.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func startChild(t *testing.T, args ...string) *child {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	c := &child{cmd: exec.CommandContext(t.Context(), self, args...), stdout: &safeBuffer{}, stderr: &safeBuffer{}}
	// The race detector makes a program linger for a second when it ends.
	c.cmd.Env = append(os.Environ(), asChild+"=1")
	c.cmd.Stdout, c.cmd.Stderr = c.stdout, c.stderr
	require.NoError(t, c.cmd.Start())
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // fails when it has ended, as it should
		_ = c.cmd.Wait()
		if t.Failed() {
			t.Logf("child %v\nstdout: %s\nstderr: %s", args, c.stdout, c.stderr)
		}
	})
	return c
}

// TestKillAndResume kills a run in the middle and starts it again. It proves
// that no record is paid for twice, not even those in flight, and that records
// which were done are not even called again.
func TestKillAndResume(t *testing.T) {
	t.Parallel() // mostly waiting
	const records = 100
	demo, err := example.StartAddresses(1000, 1)
	require.NoError(t, err)
	defer func() { assert.NoError(t, demo.Close()) }()
	in, ids := someAddresses(t, records, 5)
	out := filepath.Join(t.TempDir(), "out.jsonl")
	args := []string{"-in", in, "-out", out, "-api", demo.URL, "-json"}

	// So slow that it is not done by itself before it is killed.
	first := startChild(t, append(args, "-rate", "10/s burst 10")...)
	require.Eventually(t, func() bool {
		data, _ := os.ReadFile(out) // not there at first
		return bytes.Count(data, []byte("\n")) >= 5
	}, time.Minute, time.Millisecond)
	require.NoError(t, first.cmd.Process.Kill())
	require.Error(t, first.cmd.Wait())

	// What the journal holds now is done for good. The last line may be torn;
	// TestTornJournal covers that.
	opened, _, err := example.OpenJournal(out)
	require.NoError(t, err)
	require.NoError(t, opened.Close())
	before := readResults(t, out)
	require.NotEmpty(t, before)
	require.Less(t, len(before), records)
	calls := demo.Called()
	t.Logf("killed with %d records done and %d more called", len(before), len(calls)-len(before))

	args = append(args, "-rate", "200/s")
	second := startChild(t, args...)
	require.NoError(t, second.cmd.Wait())
	lines := strings.Split(strings.TrimSpace(second.stdout.String()), "\n")
	var rep report
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &rep))
	assert.Equal(t, records, rep.Records)
	assert.Equal(t, records, rep.Done)
	assert.Equal(t, len(before), rep.Skipped)

	charged := demo.Charged()
	for _, id := range ids {
		assert.Equal(t, 1, charged[id], "charges for %s", id)
	}
	assert.Len(t, charged, records)
	after := demo.Called()
	for _, done := range before {
		assert.Equal(t, calls[done.ID], after[done.ID], "%s was done and is called again", done.ID)
	}
	var done []string
	for _, res := range readResults(t, out) {
		assert.Equal(t, example.Done, res.Status)
		done = append(done, res.ID)
	}
	assert.ElementsMatch(t, ids, done, "one line per record")

	third := startChild(t, args...)
	require.NoError(t, third.cmd.Wait())
	assert.Contains(t, third.stdout.String(), `"requests":0,`)
	assert.Equal(t, after, demo.Called(), "nothing is left to call")
}

// TestCtrlC proves that the first Ctrl-C ends the run within a call's time, that
// every call that was made is in the journal, and that the user is told how to go
// on.
func TestCtrlC(t *testing.T) {
	t.Parallel() // mostly waiting
	demo, err := example.StartAddresses(100, 1)
	require.NoError(t, err)
	defer func() { assert.NoError(t, demo.Close()) }()
	in, _ := someAddresses(t, 2000, 0) // none unlucky: what is charged is answered
	out := filepath.Join(t.TempDir(), "out.jsonl")

	c := startChild(t, "-in", in, "-out", out, "-api", demo.URL, "-rate", "100/s", "-json")
	require.Eventually(t, func() bool { return len(demo.Charged()) >= 20 }, time.Minute, time.Millisecond)
	require.NoError(t, c.cmd.Process.Signal(os.Interrupt))
	var exit *exec.ExitError
	require.ErrorAs(t, c.cmd.Wait(), &exit)
	assert.Equal(t, 130, exit.ExitCode())
	assert.Equal(t, syscall.Signal(-1), exit.Sys().(syscall.WaitStatus).Signal(), "it was not killed")
	assert.Contains(t, c.stderr.String(), "run the same command again to continue")

	results := readResults(t, out)
	charged := demo.Charged()
	assert.Len(t, results, len(charged))
	for _, res := range results {
		assert.Equal(t, example.Done, res.Status)
		assert.Equal(t, 1, charged[res.ID], res.ID)
	}
	var rep report
	require.NoError(t, json.Unmarshal([]byte(c.stdout.String()), &rep))
	assert.Equal(t, len(results), rep.Done)
	assert.Less(t, rep.Done, rep.Records)
}

// TestExitCodes proves what a script sees: 1 and no call for a wrong input, 1
// when the API refuses the caller, 2 for wrong flags, 0 for the help.
func TestExitCodes(t *testing.T) {
	t.Parallel() // mostly waiting
	demo, err := example.StartAddresses(100, 1)
	require.NoError(t, err)
	defer func() { assert.NoError(t, demo.Close()) }()
	bad := filepath.Join(t.TempDir(), "bad.csv")
	require.NoError(t, os.WriteFile(bad, []byte("id,city\n1,Lund\n1,Ulm\n"), 0o644))
	noStreet := filepath.Join(t.TempDir(), "nostreet.csv")
	require.NoError(t, os.WriteFile(noStreet, []byte("id,city\n1,Lund\n"), 0o644))
	for name, tt := range map[string]struct {
		args []string
		code int
		want string
	}{
		"help":       {[]string{"-h"}, 0, "-redis URL"},
		"wrong flag": {[]string{"-rate", "fast"}, 2, `"fast"`},
		"wrong input": {[]string{"-in", bad, "-api", demo.URL}, 1,
			fmt.Sprintf(`%s: line 3: field "id": "1" is also the ID of line 2`, bad)},
		"no Redis":      {[]string{"-redis", "redis://127.0.0.1:1"}, 1, "no Redis answers at 127.0.0.1:1"},
		"failed record": {[]string{"-in", noStreet, "-api", demo.URL, "-out", filepath.Join(t.TempDir(), "o")}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := startChild(t, tt.args...)
			err := c.cmd.Wait()
			var exit *exec.ExitError
			if tt.code != 0 {
				require.ErrorAs(t, err, &exit)
				assert.Equal(t, tt.code, exit.ExitCode())
			} else {
				require.NoError(t, err)
			}
			assert.Contains(t, c.stderr.String(), tt.want)
		})
	}
	assert.Empty(t, demo.Charged())
}

// TestNoRecordIsForgotten proves that a report which does not account for each record is
// an error, and so is the run.
func TestNoRecordIsForgotten(t *testing.T) {
	require.NoError(t, (&report{Records: 5, Done: 3, Failed: 2}).missing())
	require.EqualError(t, (&report{Records: 5, Done: 3, Failed: 1}).missing(), "4 of 5 records are done or failed")
}

// pageOf is what the page of -monitor shows, once it shows a limit: its address is in what the
// program says.
func pageOf(ctx context.Context, said string) (text string) {
	address := regexp.MustCompile(`shown at (http\S+)`)
	for ctx.Err() == nil && !strings.Contains(text, "<td") {
		time.Sleep(20 * time.Millisecond)
		log, _ := os.ReadFile(said)
		found := address.FindSubmatch(log)
		if found == nil {
			continue
		}
		get, err := http.NewRequestWithContext(ctx, http.MethodGet, string(found[1]), nil)
		if err != nil {
			return err.Error()
		}
		answer, err := http.DefaultClient.Do(get)
		if err != nil {
			return err.Error()
		}
		page, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		text = string(page)
	}
	return text
}
