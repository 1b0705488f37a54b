package main

import (
	"slices"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/internal/provider"
)

// referee counts the requests of the run: the demo API's provider where they arrive, or the meter
// where they leave.
type referee interface {
	Summary() provider.Summary
	History() []provider.Call
}

// meter keeps the history of requests as the client sees it. It is safe for
// concurrent use.
type meter struct {
	mu    sync.Mutex
	calls []provider.Call
}

// sent records a request that leaves now, and returns its index in the history.
func (m *meter) sent() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, provider.Call{At: time.Now(), N: 1})
	return len(m.calls) - 1
}

// refused records that the response to the request was 429.
func (m *meter) refused(i int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls[i].Refused = true
}

func (m *meter) History() []provider.Call {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.calls)
}

func (m *meter) Summary() provider.Summary {
	calls := m.History()
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
