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

// readPages parses a file of pages; every line must be one.
func readPages(t *testing.T, path string) []page {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var pages []page
	for line := range strings.Lines(string(raw)) {
		var p page
		require.NoError(t, json.Unmarshal([]byte(line), &p), line)
		pages = append(pages, p)
	}
	return pages
}

func TestOutputContinuesItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pages.jsonl")
	first, err := openOutput(path)
	require.NoError(t, err)
	for _, u := range []string{"http://h/a?x=1&y=2", "http://h/b", "http://h/b"} {
		_, err := first.write(&page{URL: u})
		require.NoError(t, err)
	}
	require.NoError(t, first.close())

	// A crash in the middle of a line.
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"url":"http://h/to`)
	require.NoError(t, err)
	require.NoError(t, f.Close())

	second, err := openOutput(path)
	require.NoError(t, err)
	isNew, err := second.write(&page{URL: "http://h/a?x=1&y=2"})
	require.NoError(t, err)
	assert.False(t, isNew, "a page that is in the file was written again")
	isNew, err = second.write(&page{URL: "http://h/torn"})
	require.NoError(t, err)
	assert.True(t, isNew)
	require.NoError(t, second.close())

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
		_, err := openOutput(path)
		assert.ErrorContains(t, err, "is not a page of a crawl", content)
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, content, string(raw))
	}
}
