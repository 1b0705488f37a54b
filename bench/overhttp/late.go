package main

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/internal/observe"
)

// lateness notes how late the turns of this process are used.
type lateness struct {
	mu   sync.Mutex
	late []time.Duration
}

func (l *lateness) watch() {
	observe.Turns(func(t observe.Turn) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.late = append(l.late, t.Late)
	})
}

// ServeHTTP tells the 99th percentile since it was asked last, in milliseconds.
func (l *lateness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	l.mu.Lock()
	late := l.late
	l.late = nil
	l.mu.Unlock()
	_ = json.NewEncoder(w).Encode(percentile(late))
}

// percentile is the 99th, in milliseconds.
func percentile(all []time.Duration) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return float64(all[len(all)*99/100].Microseconds()) / 1000
}
