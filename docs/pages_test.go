package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = ".."

// page is a Markdown file, without the process's own path.
type page struct {
	name string // from the root of the repository
	text string
}

// read returns the pages whose names match one of globs, from the root.
func read(t *testing.T, globs ...string) (pages []page) {
	t.Helper()
	for _, glob := range globs {
		names, err := filepath.Glob(filepath.Join(root, glob))
		require.NoError(t, err)
		require.NotEmpty(t, names, glob)
		for _, name := range names {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			rel, err := filepath.Rel(root, name)
			require.NoError(t, err)
			pages = append(pages, page{rel, string(text)})
		}
	}
	return pages
}

// told are the pages for users, which the tests of words and code are about.
func told(t *testing.T) []page { return read(t, "README.md", "docs/*.md") }

var fence = regexp.MustCompile("(?ms)^```(\\w*)[^\n]*\n(.*?)^```$")

// goFiles are the texts of all Go files of the repository, each line without its indentation.
func goFiles(t *testing.T) (texts []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		texts = append(texts, flat(string(text)))
		return err
	}))
	return texts
}

// checked are checks of errors, which pages may leave out.
var checked = regexp.MustCompile(`(?m)^(if err != nil \{\n(return .*err|fmt\.Println\(err\)\nreturn|log\.Fatal\(err\))\n\}|return err|require\.NoError\(t, err\))\n`)

// flat returns code without indentation, empty lines and checks of errors, so that a block may
// stand anywhere.
func flat(text string) string {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.Join(strings.Fields(line), " "); line != "" { // gofmt puts comments into a column
			lines.WriteString(line + "\n")
		}
	}
	return checked.ReplaceAllString(lines.String(), "")
}
