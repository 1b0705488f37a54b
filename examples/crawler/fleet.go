package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// killAfter is how long a worker may take to stop before it is killed. It is longer than
// workerStopLimit, after which the worker ends by itself.
const killAfter = workerStopLimit + 2*time.Second

// member is one worker process, as the parent sees it.
type member struct {
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser

	mu     sync.Mutex // so that orders are not mixed
	orders *json.Encoder
}

// event is a report of a worker, or its end.
type event struct {
	from  *member
	line  report
	ended bool
	err   error // why it ended, if not cleanly
}

// fleet is the worker processes. Their reports come from events, in order for each worker. Read
// events until every worker has ended; otherwise the workers block.
type fleet struct {
	members []*member
	events  chan event
	stop    sync.Once
}

// startFleet starts n copies of this program as workers. If this process dies, the workers notice
// it because their stdin ends.
func startFleet(n int, s setup, stderr io.Writer) (*fleet, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start workers: %w", err)
	}
	f := &fleet{events: make(chan event, 64)}
	for i := range n {
		//nolint:noctx // a worker ends on order, or when its stdin ends
		m := &member{name: fmt.Sprintf("worker-%d", i+1), cmd: exec.Command(program, workerArgument)}
		m.cmd.Stderr = stderr
		stdout, err := m.start()
		if err != nil {
			for _, started := range f.members {
				_ = started.cmd.Process.Kill()
				_ = started.cmd.Wait()
			}
			return nil, fmt.Errorf("start %s: %w", m.name, err)
		}
		f.members = append(f.members, m)
		of := s
		of.Name = m.name
		of.Metrics, _ = metricsOf(s.Metrics, i) // the flag was checked before
		m.send(order{Setup: &of})
		go m.listen(stdout, f.events)
	}
	return f, nil
}

func (m *member) start() (stdout io.Reader, err error) {
	if m.stdin, err = m.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	m.orders = json.NewEncoder(m.stdin)
	if stdout, err = m.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return stdout, m.cmd.Start()
}

// send ignores errors: a worker that cannot be reached has ended, and listen reports that.
func (m *member) send(o order) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.orders.Encode(o)
}

func (m *member) listen(stdout io.Reader, events chan<- event) {
	reports := json.NewDecoder(stdout)
	for {
		var line report
		if err := reports.Decode(&line); err != nil {
			if !errors.Is(err, io.EOF) {
				// The line is not a report. The worker would wait forever for the
				// confirmation of its pages.
				_ = m.cmd.Process.Kill()
				_, _ = io.Copy(io.Discard, stdout)
			}
			break
		}
		events <- event{from: m, line: line}
	}
	events <- event{from: m, ended: true, err: m.cmd.Wait()}
}

// stopAll makes the workers stop: they take no new tasks, end their waits and reschedule their
// tasks. It returns at once and may be called more than once.
func (f *fleet) stopAll() {
	f.stop.Do(func() {
		for _, m := range f.members {
			m.send(order{Stop: true})
		}
		time.AfterFunc(killAfter, func() {
			for _, m := range f.members {
				_ = m.cmd.Process.Kill() // fails if the worker has ended, which is normal
			}
		})
	})
}
