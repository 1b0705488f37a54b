package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/fleetpace/fleetpace/internal/example"
)

// reporter is the worker's side of the connection to the parent. It sends reports and waits until
// the parent has saved a page. It is safe for concurrent use.
type reporter struct {
	mu      sync.Mutex
	out     *json.Encoder
	number  uint64
	pending map[uint64]chan struct{} // pages that are not saved yet
}

func newReporter(out io.Writer) *reporter {
	return &reporter{out: json.NewEncoder(out), pending: make(map[uint64]chan struct{})}
}

// page returns when the parent has written p to its file, so that a task never
// ends before its page is safe.
func (r *reporter) page(ctx context.Context, p example.Page) error {
	saved := make(chan struct{})
	r.mu.Lock()
	r.number++
	n := r.number
	r.pending[n] = saved
	err := r.out.Encode(report{Page: &p, Number: n})
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.pending, n)
		r.mu.Unlock()
	}()
	if err != nil {
		return &againError{cause: fmt.Errorf("the page could not be handed over: %w", err)}
	}
	select {
	case <-saved:
		return nil
	case <-ctx.Done():
		return &againError{cause: errors.New("the page was not saved in time")}
	}
}

// saved is called when the parent says that page n is in its file.
func (r *reporter) saved(n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.pending[n]; ok {
		close(c)
		delete(r.pending, n)
	}
}

// If a report cannot be sent, the parent is gone. Then stdin ends, too, so these methods return no error.

func (r *reporter) request(q request)     { r.send(report{Request: &q}) }
func (r *reporter) outcome(o visitResult) { r.send(report{Outcome: o}) }
func (r *reporter) busy(n int)            { r.send(report{Busy: &n}) }
func (r *reporter) note(text string)      { r.send(report{Note: text}) }
func (r *reporter) fatal(err error)       { r.send(report{Fatal: err.Error()}) }

// Write sends a line of a log as a note.
func (r *reporter) Write(line []byte) (int, error) {
	r.note(string(bytes.TrimSpace(line)))
	return len(line), nil
}

func (r *reporter) send(line report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.out.Encode(line)
}
