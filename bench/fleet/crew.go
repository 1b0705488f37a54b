package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/fleetpace/fleetpace/bench/internal/child"
)

// crew is the servers' processes, or the bare callers beside them.
type crew struct {
	children []*child.Process
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
func startCrew(ctx context.Context, processes int, role string, s setup, failed context.CancelCauseFunc) (*crew, error) {
	c := &crew{failed: failed}
	for range processes {
		member, err := child.Start(role, s)
		if err != nil {
			c.stop()
			return nil, fmt.Errorf("start a process: %w", err)
		}
		c.children = append(c.children, member)
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

func (c *crew) listen(member *child.Process) {
	isReady := sync.OnceFunc(c.ready.Done)
	lines := json.NewDecoder(member.Stdout)
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
		member.Kill() // it can not be understood
	}
	err = errors.Join(member.Wait(), ignoreEOF(err))
	c.mu.Lock()
	said := member.Said()
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
		member.Stop()
	}
	c.ended.Wait()
	return c.notes, c.said
}
