package main

import (
	"bufio"
	"encoding/json"
	"io"
	"sync"
	"time"
)

// notes are written in batches, so that a handler does not wait for a pipe.
type notes struct {
	mu      sync.Mutex
	buffer  *bufio.Writer
	encoder *json.Encoder
}

const flushEvery = 50 * time.Millisecond

func newNotes(w io.Writer) *notes {
	buffer := bufio.NewWriterSize(w, 1<<16)
	n := &notes{buffer: buffer, encoder: json.NewEncoder(buffer)}
	go func() {
		for range time.Tick(flushEvery) {
			n.flush()
		}
	}()
	return n
}

// write ignores errors: a parent that does not read any more has gone, and then
// stdin ends.
func (n *notes) write(line note) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_ = n.encoder.Encode(line)
}

func (n *notes) flush() {
	n.mu.Lock()
	defer n.mu.Unlock()
	_ = n.buffer.Flush()
}

// close is the end: what is written later waits for ever, so that no line is cut
// when the process exits.
func (n *notes) close() {
	n.mu.Lock()
	_ = n.buffer.Flush()
}
