package scheduler

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// atOnce is the most round trips that run at the same time. asynq enqueues tasks one by one.
	atOnce = 16

	// tidyUp bounds how long it takes to end bookings after the first failure.
	tidyUp = 5 * time.Second
)

// batch is one window of items that are being enqueued.
type batch struct {
	*Scheduler
	tidyBy func() time.Time
}

// enqueue books the items and enqueues them. Errors are those of the forecasts, without
// names.
func (s *Scheduler) enqueue(ctx context.Context, items []Item, forecasts []Forecast) {
	b := &batch{Scheduler: s, tidyBy: sync.OnceValue(func() time.Time { return time.Now().Add(tidyUp) })}
	entries := make([]*entry, 0, len(items))
	groups := make(map[groupKey]*group)
	var inOrder []*group
	for i, item := range items {
		e, err := s.entry(ctx, item)
		if err != nil {
			forecasts[i].Err = err
			continue
		}
		e.forecast = &forecasts[i]
		entries = append(entries, e)
		if e.skip {
			continue
		}
		g := groups[e.together]
		if g == nil {
			g = &group{}
			groups[e.together] = g
			inOrder = append(inOrder, g)
		}
		g.add(e)
	}
	each(inOrder, func(g *group) {
		b.book(ctx, g.now)
		b.book(ctx, g.later)
	})
	each(entries, func(e *entry) {
		if e.forecast.Err != nil {
			*e.forecast = Forecast{Err: e.forecast.Err}
			return
		}
		b.hand(ctx, e)
	})
}

// groupKey identifies a group of entries.
type groupKey struct {
	limits string // their names, and the key
	flow   string
	weight float64
	urgent bool
}

// group is entries that are booked one after the other. Entries for a later moment come last: if
// their turns would be too early, they leave the queue again, and no other entry should wait behind
// them.
type group struct{ now, later []*entry }

func (g *group) add(e *entry) {
	switch {
	case e.choice.notBefore.IsZero():
		g.now = append(g.now, e)
	case !e.choice.own: // the booking of an own ID may be another task's: it could not leave
		g.later = append(g.later, e)
	}
}

// each calls f for all, starting them in order, atOnce of them at a time.
func each[T any](all []T, f func(T)) {
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, one := range all {
		group.Go(func() error { f(one); return nil })
	}
	_ = group.Wait() // f keeps its own errors
}

// hand enqueues a task in asynq.
func (b *batch) hand(ctx context.Context, e *entry) {
	f := e.forecast
	if e.skip {
		if f.Info, f.Err = b.client.EnqueueContext(ctx, e.task, e.options...); f.Err == nil {
			f.At = f.Info.NextProcessAt
		}
		return
	}
	lead := b.config.Lead
	info, err := b.client.EnqueueContext(ctx, e.task, e.choice.at(e.comesUp(lead), lead)...)
	if err != nil {
		*f = Forecast{Err: b.leave(ctx, e, err)}
		return
	}
	f.Info = info
}
