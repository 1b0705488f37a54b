package programtest

import (
	"bytes"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Family is the program with all processes that it starts.
type Family struct {
	*exec.Cmd // the program

	mark, dir string
}

// NewFamily is the program, not started yet. Its processes have a mark, and a
// directory for what they leave.
func NewFamily(t testing.TB, args ...string) *Family {
	t.Helper()
	f := &Family{Cmd: Command(t, args...), mark: "FLEETPACE_BENCH_TEST_MARK=" + rand.Text(), dir: t.TempDir()}
	f.Env = append(os.Environ(), f.mark, "TMPDIR="+f.dir)
	return f
}

// Size counts the processes that have the mark in their environment, or work in a
// directory below dir. The second finds the Redis, which writes its title over its
// environment.
func (f *Family) Size(t testing.TB) int {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, process := range processes {
		// Errors: processes end, and those of others can not be read.
		environment, _ := os.ReadFile(filepath.Join(process, "environ"))
		cwd, _ := os.Readlink(filepath.Join(process, "cwd"))
		if bytes.Contains(environment, []byte(f.mark)) || strings.HasPrefix(cwd, f.dir) {
			count++
		}
	}
	return count
}

// EndsBy sends the signal to the program and fails the test unless all of the family
// ends, and leaves nothing in its directory.
func (f *Family) EndsBy(t testing.TB, signal syscall.Signal) {
	t.Helper()
	const limit, look = time.Minute, 20 * time.Millisecond
	if err := f.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	sent := time.Now()
	for size := f.Size(t); size > 0; size = f.Size(t) {
		if time.Since(sent) > limit {
			t.Fatalf("%d processes are left %v after %v", size, limit, signal)
		}
		time.Sleep(look)
	}
	if f.Wait() == nil {
		t.Fatalf("the program ended well after %v", signal)
	}
	left, err := os.ReadDir(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Fatalf("%v is left in the directory", left)
	}
	if code := f.ProcessState.ExitCode(); signal != syscall.SIGKILL && code != 130 {
		t.Fatalf("exit code %d after %v, want 130", code, signal)
	}
}
