package main

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// family counts the processes that have the mark in their environment, or work
// in a directory below dir. The second finds the Redis, which writes its title
// over its environment.
func family(t *testing.T, mark, dir string) int {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	count := 0
	for _, process := range processes {
		// Errors: processes end, and those of others can not be read.
		environment, _ := os.ReadFile(filepath.Join(process, "environ"))
		cwd, _ := os.Readlink(filepath.Join(process, "cwd"))
		if bytes.Contains(environment, []byte(mark)) || strings.HasPrefix(cwd, dir) {
			count++
		}
	}
	return count
}

func TestNoProcessIsLeft(t *testing.T) {
	const limit, look = 15 * time.Second, 20 * time.Millisecond
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			needRedis(t)
			mark := "FLEETPACE_BENCH_TEST_MARK=" + rand.Text()
			cmd := program(t, "-processes", "2", "-seconds", "50", "-contender", "fleetpace-worker")
			dir := t.TempDir()
			cmd.Env = append(cmd.Env, mark, "TMPDIR="+dir)
			stderr, err := cmd.StderrPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())

			// Its progress shows that it works; then all are there: the program,
			// the keeper, the Redis, two servers, and two bare callers.
			var said strings.Builder
			for buffer := make([]byte, 1024); !strings.Contains(said.String(), "fleetpace-worker:"); {
				n, err := stderr.Read(buffer)
				require.NoError(t, err, "%s", &said)
				said.Write(buffer[:n])
			}
			require.Equal(t, 7, family(t, mark, dir))
			require.NoError(t, cmd.Process.Signal(signal))
			require.Eventually(t, func() bool { return family(t, mark, dir) == 0 }, limit, look)
			require.Error(t, cmd.Wait())
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, left)
			if signal != syscall.SIGKILL {
				require.Equal(t, 130, cmd.ProcessState.ExitCode())
			}
		})
	}
}
