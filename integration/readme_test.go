package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var link = regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)

// The files that the READMEs link are there.
func TestREADMEs(t *testing.T) {
	for _, readme := range []string{"../README.md", "../bench/README.md"} {
		text, err := os.ReadFile(readme)
		require.NoError(t, err)
		links := link.FindAllStringSubmatch(string(text), -1)
		require.NotEmpty(t, links, readme)
		for _, found := range links {
			if !strings.HasPrefix(found[1], "http") {
				_, err := os.Stat(filepath.Join(filepath.Dir(readme), found[1]))
				require.NoError(t, err, readme)
			}
		}
	}
}
