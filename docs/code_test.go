package docs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each block of Go is part of a test or an example: it compiles, and it has run. Pages may leave
// checks of errors out.
func TestCode(t *testing.T) {
	files, blocks := goFiles(t), 0
	for _, p := range told(t) {
		for _, found := range fence.FindAllStringSubmatch(p.text, -1) {
			if found[1] != "go" {
				continue
			}
			blocks++
			assert.True(t, within(files, found[2]), "%s: this block is in no example:\n%s", p.name, found[2])
		}
	}
	require.NotZero(t, blocks)
}

// within tells whether a block stands in one of files as it is.
func within(files []string, block string) bool {
	block = flat(block)
	for _, file := range files {
		if strings.Contains("\n"+file, "\n"+block) {
			return true
		}
	}
	return false
}
