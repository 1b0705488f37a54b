package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// faultWorker is a worker process of the fault tests, as the test sees it.
type faultWorker struct {
	t      testing.TB
	cmd    *exec.Cmd
	orders io.WriteCloser // open as long as the worker may run
	out    io.Reader
	ended  sync.Once
	killed bool
}

// startFaultWorker starts the test binary again, in a process group of its own. So only the test
// interrupts the worker. If the worker is stopped when the test ends, the kernel wakes it.
func startFaultWorker(t testing.TB, j faultJob) *faultWorker {
	t.Helper()
	text, err := json.Marshal(j)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), faultVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	orders, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	w := &faultWorker{t: t, cmd: cmd, orders: orders, out: out}
	t.Cleanup(w.kill)
	return w
}

func (w *faultWorker) signal(s os.Signal) {
	w.t.Helper()
	require.NoError(w.t, w.cmd.Process.Signal(s))
}

// order sends an order to the worker.
func (w *faultWorker) order(what any) {
	w.t.Helper()
	_, err := fmt.Fprintln(w.orders, what)
	require.NoError(w.t, err)
}

// kill ends the worker with SIGKILL, if it still runs.
func (w *faultWorker) kill() {
	w.ended.Do(func() {
		w.killed = true
		_ = w.cmd.Process.Kill()
		_ = w.cmd.Wait()
	})
}

// finish ends the worker with SIGTERM and returns its report. It returns an error if that takes too
// long.
func (w *faultWorker) finish() (r faultReport, err error) {
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return r, err
	}
	late := time.AfterFunc(liveness, func() { _ = w.cmd.Process.Kill() })
	err = json.NewDecoder(w.out).Decode(&r)
	w.ended.Do(func() {
		if wait := w.cmd.Wait(); err == nil {
			err = wait
		}
	})
	if !late.Stop() {
		err = fmt.Errorf("it does not end within %v of SIGTERM", liveness)
	}
	return r, err
}
