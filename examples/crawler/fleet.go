package main

import (
	"io"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/internal/example"
)

// killAfter is how long a worker may take to stop before it is killed. It is longer than
// workerStopLimit, after which the worker ends by itself.
const killAfter = workerStopLimit + 2*time.Second

// fleet is the worker processes. Their reports come from events, in order for each worker. Read
// events until every worker has ended; otherwise the workers block.
type fleet struct {
	members []*example.Worker
	events  chan example.Event[report]
	stop    sync.Once
}

// startFleet starts n copies of this program as workers.
func startFleet(n int, s setup, stderr io.Writer) (*fleet, error) {
	members, events, err := example.StartWorkers[report](n, func(i int, name string) any {
		of := s
		of.Name = name
		of.Metrics, _ = example.MetricsOf(s.Metrics, i) // the flag was checked before
		return order{Setup: &of}
	}, stderr)
	return &fleet{members: members, events: events}, err
}

// stopAll makes the workers stop: they take no new tasks, end their waits and reschedule their
// tasks. It returns at once and may be called more than once.
func (f *fleet) stopAll() {
	f.stop.Do(func() {
		for _, m := range f.members {
			m.Send(order{Stop: true})
			time.AfterFunc(killAfter, m.Kill)
		}
	})
}
