package engine

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The engine does no I/O and has no clock, lock, goroutine or context: only the shell has.
func TestTheEngineIsPure(t *testing.T) {
	shell := []string{"process.go", "drive.go", "wait.go", "verbs.go", "settle.go", "stock.go"}
	impure := regexp.MustCompile(`time\.(Now|Since|Until|After|AfterFunc|Sleep|NewTimer)\(|"sync"|"context"|"log/slog"|"os"|\bgo func|\.Go\(|math/rand`)
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		if slices.Contains(shell, file) || regexp.MustCompile(`_test\.go$`).MatchString(file) {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Empty(t, impure.FindAllString(string(text), -1), file)
	}
}
