package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The command, the clients for Python and TypeScript, and the chart have one version.
func TestOneVersion(t *testing.T) {
	source, err := os.ReadFile("../cmd/fleetpace/version.go")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^const source = "(.*)"`).FindSubmatch(source)
	require.NotNil(t, found)
	out, err := exec.CommandContext(t.Context(), "../release/set", "--check", string(found[1])).CombinedOutput()
	require.NoError(t, err, string(out))
}

// The workflows name each action by a commit, because a tag can be moved.
func TestActionsArePinned(t *testing.T) {
	files, err := filepath.Glob("../.github/workflows/*.yml")
	require.NoError(t, err)
	seen := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, uses := range regexp.MustCompile(`uses: *(.*)`).FindAllString(string(text), -1) {
			assert.Regexp(t, `^uses: [\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`, uses, file)
			seen++
		}
	}
	require.NotZero(t, seen)
}
