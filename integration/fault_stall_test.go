package integration

import (
	"sync/atomic"
	"testing"
	"time"
)

// steady is how late a process that only sleeps may wake for a verdict on a fault
// to count. The provider bears 90 ms, of which the workers, which do more than
// sleep, and the way to it need their part.
const steady = 40 * time.Millisecond

// stallWatch measures for how long the machine kept a process from running that
// only sleeps: who reads a figure that is out of line can tell a busy machine from
// a fault. It knows nothing of the limiter.
type stallWatch struct{ longest atomic.Int64 }

// watchStalls measures until the test ends.
func watchStalls(t *testing.T) *stallWatch {
	const nap = 5 * time.Millisecond
	w := &stallWatch{}
	ctx := t.Context()
	go func() {
		for ctx.Err() == nil {
			before := time.Now()
			time.Sleep(nap)
			if late := int64(time.Since(before) - nap); late > w.longest.Load() {
				w.longest.Store(late)
			}
		}
	}()
	return w
}

func (w *stallWatch) worst() time.Duration { return time.Duration(w.longest.Load()) }

func (w *stallWatch) steady() bool { return w.worst() <= steady }
