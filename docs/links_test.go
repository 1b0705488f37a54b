package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	link    = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	marks   = regexp.MustCompile("[^a-z0-9 _-]")
)

// What the pages link is there: files, and headings within pages.
func TestLinks(t *testing.T) {
	pages := read(t, "*.md", "docs/*.md", "*/README.md", "*/*/README.md", "deploy/runbooks/*.md")
	for _, p := range pages {
		for _, found := range link.FindAllStringSubmatch(fence.ReplaceAllString(p.text, ""), -1) {
			target, anchor := found[1], found[2]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			path := filepath.Join(root, filepath.Dir(p.name), target)
			if target == "" {
				path = filepath.Join(root, p.name)
			}
			if _, err := os.Stat(path); !assert.NoError(t, err, p.name) || anchor == "" || !strings.HasSuffix(path, ".md") {
				continue
			}
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Contains(t, anchors(string(text)), anchor, "%s links to a heading of %s", p.name, path)
		}
	}
}

// anchors are the headings of a page as GitHub links them.
func anchors(text string) (all []string) {
	for _, found := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		all = append(all, strings.ReplaceAll(marks.ReplaceAllString(strings.ToLower(found[1]), ""), " ", "-"))
	}
	return all
}
