// Package child starts this program again, as processes that never outlive it.
//
// A child is told things on its stdin, each a line of JSON: first its setup. The end of stdin says that
// it is to end. When the parent dies, however it does, stdin ends, too. A child answers on its stdout in
// the same way.
package child

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Process is a child, seen from its parent.
type Process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.Reader
	lines  *json.Decoder
	stderr bytes.Buffer
}

// Start starts this program in a role. Call Stop or Kill in the end, and then Wait.
func Start(role string, setup any) (*Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return StartOther(setup, program, role)
}

// StartOther starts another program that is told things in the same way.
func StartOther(setup any, program string, args ...string) (p *Process, err error) {
	p = &Process{cmd: exec.Command(program, args...)} //nolint:noctx,gosec // it ends when its stdin does
	p.cmd.Stderr = &p.stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.stdout, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	p.lines = json.NewDecoder(p.stdout)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.Tell(setup)
	return p, nil
}

// Tell tells the child something. If the child has ended, Hear and Wait report it.
func (p *Process) Tell(what any) { _ = json.NewEncoder(p.stdin).Encode(what) }

// Hear returns what the child says next. If it says nothing more, the child is killed, and the error is
// what it said on its stderr.
func (p *Process) Hear(what any) error {
	err := p.lines.Decode(what)
	if err == nil {
		return nil
	}
	p.Stop()
	return fmt.Errorf("a process ended: %w: %s", cmp.Or(p.Wait(), err), p.Said())
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

// Wait returns when the child has ended. What nobody has heard of it is lost.
func (p *Process) Wait() error {
	_, _ = io.Copy(io.Discard, p.stdout)
	return p.cmd.Wait()
}

// Said is what the child said on its stderr. Call it after Wait.
func (p *Process) Said() string { return strings.TrimSpace(p.stderr.String()) }

// Crew is children that do the same.
type Crew []*Process

// StartCrew starts children. It returns when each has said that it is ready.
func StartCrew(n int, start func() (*Process, error)) (c Crew, err error) {
	for range n {
		p, err := start()
		if err != nil {
			c.Kill()
			return nil, err
		}
		c = append(c, p)
	}
	for _, p := range c {
		var ready string
		if err := p.Hear(&ready); err != nil {
			c.Kill()
			return nil, err
		}
	}
	return c, nil
}

// Kill ends all of them at once.
func (c Crew) Kill() {
	for _, p := range c {
		p.Kill()
	}
	for _, p := range c {
		_ = p.Wait()
	}
}
