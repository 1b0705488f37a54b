package main

import (
	"slices"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/internal/provider"
)

// referee says what the run did to the API: the demo API's provider, which
// counts requests where they arrive, or the meter, which can only count them
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

// sent notes a request that leaves now and returns its place in the history.
func (m *meter) sent() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, provider.Call{At: time.Now(), N: 1})
	return len(m.calls) - 1
}

// refused notes that the request was answered with 429.
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
