package lua

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The example in Python, which is the small client of doc.go, puts the same script together from the files.
func TestSmallClientHasTheScript(t *testing.T) {
	worker, err := os.ReadFile("../examples/python/worker.py")
	require.NoError(t, err)
	list := regexp.MustCompile(`(?s)TEXTS = \((.*?)\n\)`).FindSubmatch(worker)
	require.NotNil(t, list)
	var all []string
	for _, files := range regexp.MustCompile(`"(.*)"`).FindAllSubmatch(list[1], -1) {
		all = append(all, "")
		for _, file := range strings.Fields(string(files[1])) {
			text, err := os.ReadFile(file + ".lua")
			require.NoError(t, err)
			all[len(all)-1] += string(text)
		}
	}
	require.True(t, nest(all...) == texts["ask"], "%v", list)
}
