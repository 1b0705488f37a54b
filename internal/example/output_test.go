package example

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readPages parses a file of pages; every line must be one.
func readPages(t *testing.T, path string) []Page {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var pages []Page
	for line := range strings.Lines(string(raw)) {
		var p Page
		require.NoError(t, json.Unmarshal([]byte(line), &p), line)
		pages = append(pages, p)
	}
	return pages
}

func TestOutputContinuesItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pages.jsonl")
	first, err := OpenPages(path)
	require.NoError(t, err)
	for _, u := range []string{"http://h/a?x=1&y=2", "http://h/b", "http://h/b"} {
		_, err := first.Write(&Page{URL: u})
		require.NoError(t, err)
	}
	require.NoError(t, first.Close())

	// A crash in the middle of a line.
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"url":"http://h/to`)
	require.NoError(t, err)
	require.NoError(t, f.Close())

	second, err := OpenPages(path)
	require.NoError(t, err)
	isNew, err := second.Write(&Page{URL: "http://h/a?x=1&y=2"})
	require.NoError(t, err)
	assert.False(t, isNew, "a page that is in the file was written again")
	isNew, err = second.Write(&Page{URL: "http://h/torn"})
	require.NoError(t, err)
	assert.True(t, isNew)
	require.NoError(t, second.Close())

	var urls []string
	for _, p := range readPages(t, path) {
		urls = append(urls, p.URL)
	}
	assert.Equal(t, []string{"http://h/a?x=1&y=2", "http://h/b", "http://h/torn"}, urls)
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Contains(t, string(raw), "x=1&y=2", "addresses are not readable")
}

func TestOutputLeavesForeignFilesAlone(t *testing.T) {
	for _, content := range []string{"a letter\nto a friend\n", "no newline", "{\"url\":\"http://h/\"}\n{\"name\":\"x\"}\n", "[]\n"} {
		path := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, err := OpenPages(path)
		assert.ErrorContains(t, err, "is not a page of a crawl", content)
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, content, string(raw))
	}
}
