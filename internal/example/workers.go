package example

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// WorkerArgument, alone on the command line, makes a program a worker process of its own fleet.
const WorkerArgument = "-worker-process"

// Worker is a worker process, as its parent sees it. Parent and worker exchange lines of JSON: the
// parent writes orders to the worker's stdin, first its setup, and the worker writes reports to its
// stdout. The end of stdin says that the parent is gone, or that the worker is to end.
type Worker struct {
	Name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser

	mu     sync.Mutex // so that orders are not mixed
	orders *json.Encoder
}

// Event is a report of a worker, or its end.
type Event[Report any] struct {
	From   *Worker
	Report Report
	Ended  bool
	Err    error // why it ended, if not cleanly
}

// StartWorkers starts n copies of this program as workers, each with its setup. Read events until all
// of them have ended; otherwise they block. If this process dies, the workers notice it because their
// stdin ends.
func StartWorkers[Report any](n int, setup func(i int, name string) any, stderr io.Writer) (workers []*Worker, events chan Event[Report], err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("start workers: %w", err)
	}
	events = make(chan Event[Report], 64)
	for i := range n {
		//nolint:noctx // a worker ends when its stdin does
		w := &Worker{Name: fmt.Sprintf("worker-%d", i+1), cmd: exec.Command(program, WorkerArgument)}
		w.cmd.Stderr = stderr
		stdout, err := w.start()
		if err != nil {
			for _, started := range workers {
				started.Kill()
				_ = started.cmd.Wait()
			}
			return nil, nil, fmt.Errorf("start %s: %w", w.Name, err)
		}
		workers = append(workers, w)
		w.Send(setup(i, w.Name))
		go listen(w, stdout, events)
	}
	return workers, events, nil
}

func (w *Worker) start() (stdout io.Reader, err error) {
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	w.orders = json.NewEncoder(w.stdin)
	if stdout, err = w.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return stdout, w.cmd.Start()
}

// Send ignores errors: a worker that cannot be reached has ended, and an event reports that.
func (w *Worker) Send(order any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.orders.Encode(order)
}

// End ends the worker's stdin. The worker is killed if it has not ended some time later.
func (w *Worker) End(killAfter time.Duration) {
	_ = w.stdin.Close() // an error: it is closed already, or the worker has ended
	time.AfterFunc(killAfter, w.Kill)
}

// Kill kills the worker.
func (w *Worker) Kill() { _ = w.cmd.Process.Kill() } // fails if it has ended, which is normal

func listen[Report any](w *Worker, stdout io.Reader, events chan<- Event[Report]) {
	reports := json.NewDecoder(stdout)
	for {
		var r Report
		if err := reports.Decode(&r); err != nil {
			if !errors.Is(err, io.EOF) { // the line is not a report; the worker may wait for an order
				w.Kill()
				_, _ = io.Copy(io.Discard, stdout)
			}
			break
		}
		events <- Event[Report]{From: w, Report: r}
	}
	events <- Event[Report]{From: w, Ended: true, Err: w.cmd.Wait()}
}

// MetricsOf is the address of a worker's metrics; the first worker is 0. It is empty if they are
// not served.
func MetricsOf(first string, worker int) (string, error) {
	if first == "" {
		return "", nil
	}
	host, text, err := net.SplitHostPort(first)
	if err != nil {
		return "", err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || int(port)+worker > 65535 {
		return "", fmt.Errorf("%q is no port from 0 to %d", text, 65535-worker)
	}
	if port == 0 {
		return first, nil
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)+worker)), nil
}
