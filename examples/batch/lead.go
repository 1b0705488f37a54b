package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/fleetpace/fleetpace/internal/example"
)

// lead is the parent while its workers run. It hands out the records and writes their results. Only
// one goroutine uses it.
type lead struct {
	journal *example.Journal
	todo    []example.Record
	changed func(tally)

	members     []*example.Worker                             // live workers
	inWork      map[*example.Worker]map[string]example.Record // by worker and ID
	concurrency int                                           // records in work in each
	starting    int                                           // workers that are not ready yet
	stopping    bool
	err         error // why the run ended early

	tally           tally
	estimated, used int            // tokens of the calls that were made
	workers         map[string]int // records, by worker
}

// run starts n workers, and returns when all of them have ended.
func (l *lead) run(ctx context.Context, n int, s setup, stderr io.Writer) error {
	members, events, err := example.StartWorkers[outcome](n, func(int, string) any { return s }, stderr)
	if err != nil {
		return err
	}
	l.members, l.starting, l.concurrency = members, n, s.Concurrency
	l.inWork = map[*example.Worker]map[string]example.Record{}
	for _, m := range members {
		l.inWork[m] = map[string]example.Record{}
	}
	interrupt := ctx.Done()
	for len(l.members) > 0 {
		select {
		case ev := <-events:
			if ev.Ended {
				l.lose(ev)
			} else {
				l.hear(ev.From, ev.Report)
			}
			l.handOut()
		case <-interrupt:
			interrupt = nil
			l.stop(context.Cause(ctx))
		}
	}
	return l.err
}

// stop makes the workers end. The first reason stays.
func (l *lead) stop(why error) {
	if l.stopping {
		return
	}
	l.stopping, l.err = true, why
	for _, m := range l.members {
		m.End(killAfter)
	}
}

// lose handles the end of a worker. If it ended early, its records go to others.
func (l *lead) lose(ev example.Event[outcome]) {
	l.members = slices.DeleteFunc(l.members, func(m *example.Worker) bool { return m == ev.From })
	for _, r := range l.inWork[ev.From] {
		l.todo = append(l.todo, r)
	}
	clear(l.inWork[ev.From])
	switch {
	case l.stopping && l.err == nil:
		l.err = ev.Err
	case !l.stopping && (l.starting > 0 || len(l.members) == 0):
		l.stop(fmt.Errorf("%s ended early: %w", ev.From.Name, cmp.Or(ev.Err, io.EOF)))
	}
}

func (l *lead) hear(from *example.Worker, line outcome) {
	switch {
	case line.Fatal != "":
		l.stop(fmt.Errorf("%s: %s", from.Name, line.Fatal))
	case line.Ready:
		l.starting--
	case line.Result != nil:
		l.note(from, line)
	}
}

// handOut gives the workers as many records as they may have in work, one each in turn. It stops
// them when all are done. They start together, so that the first one does not use up the bursts.
func (l *lead) handOut() {
	if l.starting > 0 || l.stopping {
		return
	}
	inWork := 0
	for range l.concurrency {
		for _, m := range l.members {
			if len(l.inWork[m]) < l.concurrency && len(l.todo) > 0 {
				l.inWork[m][l.todo[0].ID] = l.todo[0]
				m.Send(l.todo[0])
				l.todo = l.todo[1:]
			}
		}
	}
	for _, m := range l.members {
		inWork += len(l.inWork[m])
	}
	if inWork == 0 {
		l.stop(nil)
	}
}

// note writes the result of a record.
func (l *lead) note(from *example.Worker, line outcome) {
	delete(l.inWork[from], line.Result.ID)
	if err := l.journal.Append(*line.Result); err != nil {
		l.stop(err)
		return
	}
	l.workers[from.Name]++
	l.estimated += line.Estimated
	l.used += line.Used
	l.tally.retried += line.Retried
	if line.Result.Status == example.Done {
		l.tally.done++
	} else {
		l.tally.failed++
	}
	l.changed(l.tally)
}
