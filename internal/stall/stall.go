// Package stall measures for how long the machine keeps a process from running that
// only sleeps. It knows nothing of any limiter: who reads a figure that is out of line
// can tell a busy machine from a fault.
package stall

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	nap = 5 * time.Millisecond

	// lateness is how late a process may wake for the machine to count as one that
	// runs it whenever it wants.
	lateness = 20 * time.Millisecond

	// noticeable is the share of stalls from which on they explain a figure.
	noticeable = 0.01
)

// Watch measures since it was started. It is safe for concurrent use.
type Watch struct {
	began         time.Time
	longest, lost atomic.Int64 // nanoseconds
}

// Start measures until the context ends.
func Start(ctx context.Context) *Watch {
	w := &Watch{began: time.Now()}
	go func() {
		for ctx.Err() == nil {
			before := time.Now()
			time.Sleep(nap)
			w.note(time.Since(before) - nap)
		}
	}()
	return w
}

func (w *Watch) note(late time.Duration) {
	w.longest.Store(max(w.longest.Load(), int64(late)))
	if late > lateness {
		w.lost.Add(int64(late))
	}
}

// Longest is the longest stall so far.
func (w *Watch) Longest() time.Duration { return time.Duration(w.longest.Load()) }

// Share is the part of the time so far, from 0 to 1, that went by in stalls of more
// than 20 ms.
func (w *Watch) Share() float64 {
	return float64(w.lost.Load()) / float64(max(1, time.Since(w.began)))
}

// Calm waits until the machine has run a process that only sleeps, for so long, whenever it
// wanted to: until less than a hundredth of that time went by in stalls. It returns the
// context's error where that does not come.
func Calm(ctx context.Context, quiet time.Duration) error {
	return calm(ctx, quiet, Start)
}

func calm(ctx context.Context, quiet time.Duration, start func(context.Context) *Watch) error {
	for {
		watching, stop := context.WithCancel(ctx)
		w := start(watching)
		select {
		case <-time.After(quiet):
		case <-ctx.Done():
		}
		stop()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if w.Share() < noticeable {
			return nil
		}
	}
}

// Note says what a share meant for a fleet; it is empty for less than a hundredth.
func Note(share float64) string {
	if share < noticeable {
		return ""
	}
	return fmt.Sprintf("kept a process that only sleeps from running for %.1f %% of the time, in which turns pass", 100*share)
}
