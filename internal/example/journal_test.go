package example

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTornJournal cuts a journal after every one of its bytes, as a crash may,
// and proves that exactly the whole lines count, and that results which are
// appended afterwards are whole lines too.
func TestTornJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	j, _, err := OpenJournal(path)
	require.NoError(t, err)
	require.NoError(t, j.Append(Result{ID: "a", Status: Done, Attempts: 1, Answer: json.RawMessage(`{"n": "ä"}`)}))
	require.NoError(t, j.Append(Result{ID: "b", Status: Failed, Attempts: 2, Error: "422"}))
	require.NoError(t, j.Append(Result{ID: "c", Status: Done, Attempts: 1, Answer: json.RawMessage("[1,\n2]")}))
	require.NoError(t, j.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(string(whole), "\n"))

	for cut := range len(whole) + 1 {
		require.NoError(t, os.WriteFile(path, whole[:cut], 0o644))
		j, dropped, err := OpenJournal(path)
		require.NoError(t, err, "cut at %d", cut)

		// A line is whole without its line break, too.
		want := map[string]string{}
		var kept, torn int
		for i, line := range strings.SplitAfter(string(whole[:cut]), "\n") {
			full := strings.SplitAfter(string(whole), "\n")[i]
			if line == full || line+"\n" == full {
				kept += len(line)
				if i < 3 {
					want[[]string{"a", "b", "c"}[i]] = []string{Done, Failed, Done}[i]
				}
			} else {
				torn = len(line)
			}
		}
		assert.Equal(t, want, j.status, "cut at %d", cut)
		assert.EqualValues(t, torn, dropped, "cut at %d", cut)
		assert.Equal(t, want["a"] == Done, j.IsDone("a"))
		assert.False(t, j.IsDone("b"), "failed is not done")

		require.NoError(t, j.Append(Result{ID: "b", Status: Done, Attempts: 1}))
		assert.True(t, j.IsDone("b"))
		require.NoError(t, j.Close())
		assert.Len(t, readResults(t, path), len(want)+1, "cut at %d", cut)
	}
}

// TestForeignFile proves that a file which is not a journal is named, with the
// line, and left as it is.
func TestForeignFile(t *testing.T) {
	good := `{"id":"a","status":"done","attempts":1}` + "\n"
	for name, tt := range map[string]struct{ text, want string }{
		"records":       {`{"id":"a","city":"Lund"}` + "\n", "line 1"},
		"text":          {"hello\nworld\n", "line 1"},
		"one word":      {"hello", "line 1"},
		"in the middle": {good + "{\n" + good, "line 2"},
		"no id":         {good + `{"status":"done"}` + "\n", "line 2"},
		"other status":  {good + good + `{"id":"b","status":"perhaps"}` + "\n", "line 3"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out.jsonl")
			require.NoError(t, os.WriteFile(path, []byte(tt.text), 0o644))
			_, _, err := OpenJournal(path)
			require.ErrorContains(t, err, path+": "+tt.want+" is not a result")
			left, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, tt.text, string(left))
		})
	}
	_, _, err := OpenJournal(t.TempDir())
	assert.ErrorContains(t, err, "-out")
}

// TestConcurrentAppends proves that lines of many goroutines do not mix.
func TestConcurrentAppends(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	j, _, err := OpenJournal(path)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 50 {
				assert.NoError(t, j.Append(Result{ID: strings.Repeat("x", 50*i+k+1), Status: Done}))
			}
		})
	}
	wg.Wait()
	require.NoError(t, j.Close())
	assert.Len(t, readResults(t, path), 400)
}

// TestNothingFollowsAFailedWrite proves that a journal which could not be
// written takes no more results: they might follow half a line.
func TestNothingFollowsAFailedWrite(t *testing.T) {
	j, _, err := OpenJournal(filepath.Join(t.TempDir(), "out.jsonl"))
	require.NoError(t, err)
	require.NoError(t, j.file.Close())
	first := j.Append(Result{ID: "a", Status: Done})
	require.ErrorContains(t, first, "journal: write")
	assert.Equal(t, first, j.Append(Result{ID: "b", Status: Done}))
	assert.False(t, j.IsDone("a"))
	assert.ErrorIs(t, j.Close(), first)
}

// readResults reads a journal the plain way: every line must be a whole result.
func readResults(t *testing.T, path string) []Result {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var results []Result
	for line := range strings.Lines(string(data)) {
		res, err := parseResult([]byte(line))
		require.NoError(t, err, "line %q", line)
		require.True(t, strings.HasSuffix(line, "\n"), "line %q", line)
		results = append(results, res)
	}
	return results
}
