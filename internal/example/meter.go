package example

import (
	"slices"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/internal/provider"
)

// Referee counts the requests of the run: the demo API's provider where they arrive, or the meter
// where they leave.
type Referee interface {
	Summary() provider.Summary
	History() []provider.Call
}

// Meter keeps the history of requests as the client sees it. It is safe for
// concurrent use.
type Meter struct {
	mu    sync.Mutex
	calls []provider.Call
}

// Sent records a request that leaves now, and returns its index in the history.
func (m *Meter) Sent() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, provider.Call{At: time.Now(), N: 1})
	return len(m.calls) - 1
}

// Refused records that the response to the request was 429.
func (m *Meter) Refused(i int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls[i].Refused = true
}

func (m *Meter) History() []provider.Call {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.calls)
}

// Summary returns the summary of the requests so far.
func (m *Meter) Summary() provider.Summary { return Summarise(m.History()) }

// Summarise returns the summary of requests in the order in which they were sent.
func Summarise(calls []provider.Call) provider.Summary {
	s := provider.Summary{Requests: len(calls)}
	for _, c := range calls {
		if c.Refused {
			s.Refused++
		}
	}
	if len(calls) > 0 {
		s.First, s.Last = calls[0].At, calls[len(calls)-1].At
	}
	return s
}
