// Package child starts this program again, as processes that never outlive it.
//
// A child is told two things on its stdin: its setup, one line of JSON, and that it
// is to end, which the end of stdin says. When the parent dies, however it does,
// stdin ends, too. What a child says on its stdout is its role's matter.
package child

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Process is a child, seen from its parent.
type Process struct {
	Stdout io.Reader

	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr bytes.Buffer
}

// Start starts this program in a role. Call Stop and Wait in the end.
func Start(role string, setup any) (*Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return StartOther(setup, program, role)
}

// StartOther starts another program that is told the same two things.
func StartOther(setup any, program string, args ...string) (*Process, error) {
	told, err := json.Marshal(setup)
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(program, args...)} //nolint:noctx,gosec // it ends when its stdin does
	p.cmd.Stderr = &p.stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.Stdout, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	_, _ = p.stdin.Write(append(told, '\n')) // when it fails, the child has ended, which Wait reports
	return p, nil
}

// stopLimit is how long a child may take to end.
const stopLimit = 5 * time.Second

// End ends the child's input and returns at once. Most roles end then.
func (p *Process) End() { _ = p.stdin.Close() }

// Stop asks the child to end and returns at once. It may be called again.
func (p *Process) Stop() {
	p.End()
	time.AfterFunc(stopLimit, p.Kill)
}

// Kill ends the child at once.
func (p *Process) Kill() { _ = p.cmd.Process.Kill() } // fails when it has ended, as it should

// Wait returns when the child has ended. What nobody has read of its Stdout is lost.
func (p *Process) Wait() error {
	_, _ = io.Copy(io.Discard, p.Stdout)
	return p.cmd.Wait()
}

// Said is what the child said on its stderr. Call it after Wait.
func (p *Process) Said() string { return strings.TrimSpace(p.stderr.String()) }
