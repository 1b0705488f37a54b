package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/fleetpace/fleetpace/internal/example"
	"github.com/fleetpace/fleetpace/internal/progress"
)

const (
	watchEvery   = 250 * time.Millisecond // how often the frontier is counted
	redisSilence = 15 * time.Second       // how long Redis may not answer before the crawl ends
	maxNotes     = 20                     // the most lines that are shown during the crawl
)

// lead is the parent while its workers run. It writes their pages, shows the progress, and decides
// when to stop them. Only one goroutine uses it.
type lead struct {
	scene *scene
	fleet *fleet
	tally *tally
	bar   *progress.Bar
	tty   *os.File

	alive    int
	busy     map[string]int // visits under way, by worker
	notes    int
	stopping bool
	err      error // why the crawl ended early
}

// run starts the workers and returns when all of them have ended. It returns the counts of the
// crawl and the rest of the frontier. The tally is nil if nothing was started.
func (s *scene) run(ctx context.Context, stderr *os.File) (*tally, backlog, error) {
	fleet, err := startFleet(s.opts.workers, setup{
		RedisURL: s.server.URL, Run: s.opts.run, Hosts: s.hosts,
		QPS: s.opts.qps, PerHost: s.perHost, Metrics: s.opts.metrics,
	}, stderr)
	if err != nil {
		return nil, backlog{}, err
	}
	l := &lead{scene: s, fleet: fleet, tally: newTally(), tty: stderr, alive: len(fleet.members),
		busy: make(map[string]int)}
	l.bar = progress.New(stderr, "crawl", s.expectedPages())
	defer l.bar.Close()
	l.loop(ctx)
	end, err := countBacklog(s.inspector, s.opts.run)
	if l.err == nil && err != nil {
		l.err = err
	}
	return l.tally, end, l.err
}

// expectedPages is the length of the progress bar; -1: unknown.
func (s *scene) expectedPages() int {
	if s.site == nil || s.site.Pages < 0 || s.continued {
		return -1
	}
	if s.opts.maxPages > 0 {
		return min(s.opts.maxPages, s.site.Pages)
	}
	return s.site.Pages
}

func (l *lead) loop(ctx context.Context) {
	counts, endWatch := l.scene.watch()
	defer endWatch()
	interrupt := ctx.Done()
	heard := time.Now()
	for l.alive > 0 {
		select {
		case ev := <-l.fleet.events:
			l.hear(ev)
		case c := <-counts:
			if c.err != nil {
				if time.Since(heard) > redisSilence {
					l.stop(fmt.Errorf("redis does not answer: %w: the crawl can be continued when it is back, if it kept its data", c.err))
				}
				continue
			}
			heard = time.Now()
			l.show(c.backlog)
			if c.empty() {
				l.stop(nil)
			}
		case <-interrupt:
			interrupt = nil
			l.bar.Describe("stopping: workers put their tasks back")
			l.stop(errInterrupted)
		}
	}
}

// stop makes the fleet stop. The first reason stays.
func (l *lead) stop(why error) {
	if l.stopping {
		return
	}
	l.stopping, l.err = true, why
	l.fleet.stopAll()
}

func (l *lead) hear(ev example.Event[report]) {
	if ev.Ended {
		l.alive--
		delete(l.busy, ev.From.Name)
		if !l.stopping || ev.Err != nil {
			l.note(fmt.Sprintf("%s ended early (%v): its tasks come back within two minutes", ev.From.Name, ev.Err))
		}
		if l.alive == 0 && !l.stopping {
			l.stop(errors.New("all workers have ended; the crawl can be continued with the same -redis and -run"))
		}
		return
	}
	l.tally.add(ev.From.Name, ev.Report)
	switch {
	case ev.Report.Page != nil:
		l.save(ev.From, ev.Report)
	case ev.Report.Busy != nil:
		l.busy[ev.From.Name] = *ev.Report.Busy
	case ev.Report.Note != "":
		l.note(ev.Report.Note)
	case ev.Report.Fatal != "":
		l.note(ev.From.Name + ": " + ev.Report.Fatal)
	}
}

// save writes a page and then confirms it to its worker, which ends the task.
func (l *lead) save(from *example.Worker, line report) {
	isNew, err := l.scene.out.Write(line.Page)
	if err != nil {
		l.stop(err)
		return
	}
	from.Send(order{Saved: line.Number})
	if !isNew {
		return
	}
	l.tally.pages++
	l.tally.bytes += line.Page.Bytes
	if most := l.scene.opts.maxPages; most > 0 && l.tally.pages >= most {
		l.stop(nil)
	}
}

func (l *lead) show(b backlog) {
	l.bar.Set(l.tally.pages)
	if l.stopping {
		return
	}
	busy := 0
	for _, n := range l.busy {
		busy += n
	}
	if b.waiting == 0 && b.active > 0 && busy == 0 && len(l.tally.calls) > 0 {
		// No live worker has these tasks.
		l.bar.Describe(fmt.Sprintf("%d URLs of killed workers come back within two minutes", b.active))
		return
	}
	l.bar.Describe(fmt.Sprintf("%d on the frontier, %d under way, %d requests", b.waiting, b.active, len(l.tally.calls)))
}

// note prints a line above the progress display.
func (l *lead) note(text string) {
	switch l.notes++; {
	case l.notes < maxNotes:
		say(l.tty, "\r%s\n", text)
	case l.notes == maxNotes:
		say(l.tty, "\r%s\nfurther notes are not shown\n", text)
	}
}

type counted struct {
	backlog
	err error
}

// watch counts the frontier repeatedly, in its own goroutine, so that a slow Redis does not delay
// the workers' reports. Call the function to end it.
func (s *scene) watch() (<-chan counted, func()) {
	counts := make(chan counted)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			b, err := countBacklog(s.inspector, s.opts.run)
			select {
			case <-ctx.Done():
				return
			case counts <- counted{b, err}:
			}
		}
	}()
	return counts, func() { cancel(); <-done }
}
