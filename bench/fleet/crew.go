package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// child is this program, started again. It ends when its stdin does, so that it
// never outlives its parent.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.Reader
	stderr bytes.Buffer // read it after wait
}

func startChild(argument string) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(program, argument)} //nolint:noctx // it ends when its stdin does
	c.cmd.Stderr = &c.stderr
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if c.stdout, err = c.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return c, c.cmd.Start()
}

// stopLimit is how long a child may take to end.
const stopLimit = 5 * time.Second

// stop asks the child to end. Whoever reads its stdout waits for it.
func (c *child) stop() {
	_ = c.stdin.Close()
	time.AfterFunc(stopLimit, func() { _ = c.cmd.Process.Kill() }) // fails when it has ended, as it should
}

// crew is the servers' processes, or the bare callers beside them.
type crew struct {
	children []*child
	ready    sync.WaitGroup // until each is ready or has ended
	ended    sync.WaitGroup
	failed   context.CancelCauseFunc // called when one ends before stop

	mu       sync.Mutex
	stopping bool
	notes    []note
	said     []string // on stderr
}

// startCrew returns when all processes are ready. When one of them ends before it
// is told to, failed is called.
func startCrew(ctx context.Context, processes int, argument string, s setup, failed context.CancelCauseFunc) (*crew, error) {
	c := &crew{failed: failed}
	for range processes {
		member, err := startChild(argument)
		if err != nil {
			c.stop()
			return nil, fmt.Errorf("start a process: %w", err)
		}
		c.children = append(c.children, member)
		_ = json.NewEncoder(member.stdin).Encode(s) // when it fails, the member has ended, which listen reports
		c.ready.Add(1)
		c.ended.Go(func() { c.listen(member) })
	}
	c.ready.Wait()
	if err := context.Cause(ctx); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

func (c *crew) listen(member *child) {
	isReady := sync.OnceFunc(c.ready.Done)
	lines := json.NewDecoder(member.stdout)
	var err error
	for {
		var line note
		if err = lines.Decode(&line); err != nil {
			break
		}
		if line.Kind == ready {
			isReady()
			continue
		}
		c.mu.Lock()
		c.notes = append(c.notes, line)
		c.mu.Unlock()
	}
	if !errors.Is(err, io.EOF) {
		_ = member.cmd.Process.Kill() // it can not be understood
		_, _ = io.Copy(io.Discard, member.stdout)
	}
	err = errors.Join(member.cmd.Wait(), ignoreEOF(err))
	c.mu.Lock()
	said := strings.TrimSpace(member.stderr.String())
	if said != "" {
		c.said = append(c.said, said)
	}
	if !c.stopping {
		c.failed(fmt.Errorf("a process of the fleet ended: %w: %s", errors.Join(errors.New("before it was told to"), err), said))
	}
	c.mu.Unlock()
	isReady()
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// stop ends all processes and returns what they noted, and said on stderr. It may
// be called again.
func (c *crew) stop() (notes []note, said []string) {
	c.mu.Lock()
	c.stopping = true
	c.mu.Unlock()
	for _, member := range c.children {
		member.stop()
	}
	c.ended.Wait()
	return c.notes, c.said
}
