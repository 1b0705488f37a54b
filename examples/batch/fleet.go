package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// workerArgument, alone on the command line, makes this program a worker process of a fleet. The
// parent starts its workers with it.
const workerArgument = "-worker-process"

// The parent and its workers exchange JSON lines. A worker reads its setup from stdin and then
// records, one for each call that it may have in work. At the end of stdin it finishes its calls in
// flight and exits. It writes its reports to stdout.

// setup is the first line that a worker reads. It holds the Redis URL, because other users could
// read a password on the command line.
type setup struct {
	RedisURL    string         `json:"redis_url"`
	API         string         `json:"api"`
	Limits      llmLimits      `json:"limits"`
	Outage      reserve.Policy `json:"outage"`
	Concurrency int            `json:"concurrency"`
	NoSettle    bool           `json:"no_settle,omitempty"`
}

// outcome is one line from a worker. Exactly one of Ready, Result and Fatal is set.
type outcome struct {
	Ready  bool    `json:"ready,omitempty"` // it has its connections, and can take records
	Result *result `json:"result,omitempty"`
	Fatal  string  `json:"fatal,omitempty"` // why it exits

	Retried   int    `json:"retried,omitempty"`
	Estimated int    `json:"estimated,omitempty"` // tokens
	Used      int    `json:"used,omitempty"`      // tokens
	HeldBy    string `json:"held_by,omitempty"`   // the limit that the call waited for
}

// event is a line of a worker, or its exit.
type event struct {
	from  *member
	line  outcome
	ended bool
	err   error // why it ended, if not cleanly
}

// member is one worker process, as the parent sees it.
type member struct {
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	down  *json.Encoder

	inWork map[string]record // by ID; only the parent's loop uses it
}

// killAfter is how long a worker may take to end before it is killed.
const killAfter = callTimeout + 2*time.Second

// startFleet starts n copies of this program as workers. Read events until all workers have ended;
// otherwise they block.
func startFleet(n int, s setup, stderr io.Writer) (members []*member, events chan event, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("start workers: %w", err)
	}
	events = make(chan event, 64)
	for i := range n {
		//nolint:noctx // a worker ends when its stdin does, with its calls finished
		m := &member{name: fmt.Sprintf("worker-%d", i+1), cmd: exec.Command(program, workerArgument), inWork: make(map[string]record)}
		m.cmd.Stderr = stderr
		stdout, err := m.start()
		if err != nil {
			for _, started := range members {
				_ = started.cmd.Process.Kill()
				_ = started.cmd.Wait()
			}
			return nil, nil, fmt.Errorf("start %s: %w", m.name, err)
		}
		members = append(members, m)
		m.send(s)
		go m.listen(stdout, events)
	}
	return members, events, nil
}

func (m *member) start() (stdout io.Reader, err error) {
	if m.stdin, err = m.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	m.down = json.NewEncoder(m.stdin)
	if stdout, err = m.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return stdout, m.cmd.Start()
}

// send ignores errors: a worker that cannot be reached has ended, and listen reports that.
func (m *member) send(line any) { _ = m.down.Encode(line) }

// stop makes the worker end.
func (m *member) stop() {
	_ = m.stdin.Close() // an error: it is closed already, or the worker has ended
	time.AfterFunc(killAfter, func() { _ = m.cmd.Process.Kill() })
}

func (m *member) listen(stdout io.Reader, events chan<- event) {
	lines := json.NewDecoder(stdout)
	for {
		var line outcome
		if err := lines.Decode(&line); err != nil {
			if !errors.Is(err, io.EOF) { // the line is not a report
				_ = m.cmd.Process.Kill()
				_, _ = io.Copy(io.Discard, stdout)
			}
			break
		}
		events <- event{from: m, line: line}
	}
	events <- event{from: m, ended: true, err: m.cmd.Wait()}
}
