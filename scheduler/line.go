package scheduler

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fleetpace/fleetpace/reserve"
)

// entry is one task on its way.
type entry struct {
	task    *asynq.Task
	options []asynq.Option // as they were given
	skip    bool

	choice      choice
	limiter     *reserve.Limiter
	cost        int
	lead        time.Duration
	id          string // of its number
	asked       bool   // for a turn right now, and may have got it
	known       bool   // the ID had a number before: it may be that of another task
	reservation *reserve.Reservation
	forecast    *Forecast
}

// line is a limiter and a key in it; its entries take their numbers together.
type line struct {
	limiter *reserve.Limiter
	entries []*entry
}

// lineKey tells lines apart. Two of them may be the same line where a Turn names
// a limiter that [reserve.Limiter.For] made; that costs only round trips.
type lineKey struct {
	limiter *reserve.Limiter
	key     string
}

// lineUp takes the numbers of a line.
func (b *batch) lineUp(ctx context.Context, l *line) {
	entries, err := sooner(ctx, l)
	if err != nil {
		for _, e := range l.entries {
			e.forecast.Err = err
		}
		return
	}
	recognize(ctx, l.limiter, entries)
	for i, placed := range l.limiter.LineUp(ctx, requests(entries)) {
		e := entries[i]
		e.reservation, e.forecast.Err = placed.Reservation, placed.Err
		if placed.Err != nil && (e.asked || errors.Is(placed.Err, reserve.ErrOutcomeUnknown)) {
			e.forecast.Err = b.giveBack(ctx, e, placed.Err)
		}
	}
}

func requests(entries []*entry) []reserve.Request {
	requests := make([]reserve.Request, len(entries))
	for i, e := range entries {
		requests[i] = reserve.Request{ID: e.id, N: e.cost, Deadline: e.choice.deadline}
	}
	return requests
}

// sooner returns the entries that have to line up now: all but those whose turn
// would come before they may run, even at the end of the line. Numbers that are
// taken and given back make the line of others longer meanwhile.
func sooner(ctx context.Context, l *line) ([]*entry, error) {
	if !slices.ContainsFunc(l.entries, func(e *entry) bool { return !e.choice.notBefore.IsZero() }) {
		return l.entries, nil
	}
	state, err := l.limiter.State(ctx)
	if err != nil {
		return nil, err
	}
	end := time.Now()
	if state.NextFree.After(end) {
		end = state.NextFree
	}
	var entries []*entry
	for _, e := range l.entries {
		possible := e.cost >= 1 && e.cost <= l.limiter.Limit().MaxBurst() // else refused as all others
		turn := end.Add(step(l.limiter, e.cost))
		if possible && turn.Before(e.choice.notBefore) {
			continue
		}
		if possible {
			end = turn
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// recognize finds the IDs that have a number already: asked for a turn right now,
// only they get one. So does whoever comes to an idle line: hence all ask, in
// their order, and an own ID that was given a turn counts as known.
func recognize(ctx context.Context, limiter *reserve.Limiter, entries []*entry) {
	if !slices.ContainsFunc(entries, func(e *entry) bool { return e.choice.own }) {
		return
	}
	var asking []*entry
	for _, e := range entries {
		if e.choice.own || e.choice.notBefore.IsZero() {
			asking = append(asking, e)
		}
	}
	rightNow := requests(asking)
	for i := range rightNow {
		rightNow[i].Deadline = time.Now()
	}
	for i, placed := range limiter.LineUp(ctx, rightNow) {
		e := asking[i]
		e.asked = true
		e.known = e.choice.own && !errors.Is(placed.Err, reserve.ErrWouldMissDeadline)
	}
}

func step(l *reserve.Limiter, permits int) time.Duration {
	return time.Duration(float64(permits) / l.Limit().Rate() * float64(time.Second))
}

// ahead is how many permits that are not due yet come before those of a turn.
func ahead(l *reserve.Limiter, delay time.Duration, cost int) int64 {
	return max(0, int64(math.Ceil(delay.Seconds()*l.Limit().Rate()))-int64(cost))
}
