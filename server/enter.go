package server

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// prefix begins the ids of callers in Redis, because other programs have ids there, too.
const prefix = "http:"

// join lets a call that has no place yet join the queue. A call without an id whose turn comes
// after its poll gets an id, and its place moves to Redis. It loses no position, because it has
// just joined at the end.
func (s *Server) join(p *poll, at *place) (err error) {
	if at.reservation != nil && !at.reservation.Booked() {
		return nil
	}
	patience := max(0, time.Until(p.over))
	if at.slots && at.id == "" && at.caller.name != "" { // people see who holds the slots
		at.id, at.inRedis, at.untold = ownID(at.caller.name, cmp.Or(p.attempt, newID())), true, true
	}
	if at.inRedis {
		return at.ask(p, patience)
	}
	if at.reservation, err = at.turns.Reserve(p, at.costs...); err != nil {
		return err
	}
	if due := at.reservation.Due(); !due.After(p.over) || p.misses(due) {
		return nil
	}
	if err = at.reservation.Cancel(context.WithoutCancel(p)); err != nil {
		return err
	}
	at.id, at.inRedis, at.untold = newID(), true, true
	return at.ask(p, patience)
}

func (at *place) ask(p *poll, patience time.Duration) (err error) {
	turns := at.turns
	if at.leaves(p) {
		turns = turns.Leaving()
	}
	at.reservation, err = turns.Ask(p, at.id, patience, at.costs...)
	return err
}

// give returns the response for a call that has its turn. A caller that asks again with the id gets
// another turn, because this response may be lost. If the caller is gone, the call was not made.
func (s *Server) give(ctx context.Context, p *poll, at *place) any {
	r := at.reservation
	if ctx.Err() != nil {
		s.hangUp(ctx, at)
		return errHungUp
	}
	token, lease, err := s.grant(ctx, p, at)
	if err != nil {
		s.hangUp(ctx, at)
		s.report(ctx, at.caller, err)
		return problemOf(err, "limits")
	}
	fresh := newID()
	if token == "" {
		token = fresh[len(prefix):]
	}
	s.places.drop(at)
	if at.id == "" {
		at.id = fresh
	}
	s.given.keep(token, at)
	now := time.Now()
	return turnAnswer{
		Turn: token, ID: strings.TrimPrefix(at.id, prefix), Waited: millis(now.Sub(at.since)),
		Held: millis(now.Sub(p.came)), Due: millis(r.Due().Sub(now)), Usable: millis(r.Until().Sub(now)),
		Lease: millis(lease), Probes: r.Probes(),
	}
}

// miss returns the response for a call whose turn comes too late, and removes its place.
func (s *Server) miss(at *place) any {
	wait := at.reservation.Delay()
	s.places.drop(at)
	if err := at.reservation.Cancel(context.Background()); err != nil {
		s.report(context.Background(), at.caller, err)
	}
	return tooLate(wait)
}

// hangUp ends a call whose caller is gone. A call with an id keeps its place in Redis.
func (s *Server) hangUp(ctx context.Context, at *place) {
	defer s.places.drop(at)
	ctx = context.WithoutCancel(ctx)
	var err error
	if at.inRedis && !at.untold {
		err = at.reservation.PutBackUnsure(ctx)
	} else {
		at.reservation.Release()
		err = at.reservation.Cancel(ctx)
	}
	if err != nil && !errors.Is(err, reserve.ErrInvalid) {
		s.report(ctx, at.caller, err)
	}
}

// keepPlace returns the response at the end of a poll. The place stays in the queue until the
// caller asks again. A booking is in Redis, so the server keeps only since when it waits.
func (s *Server) keepPlace(ctx context.Context, at *place) any {
	if at.id == "" {
		at.id = newID()
	}
	at.untold = false
	if at.inRedis && at.turns.Stopped() != nil && !at.reservation.Booked() { // else its caller would ask again at once, until the stop ends
		if err := at.reservation.PutBack(context.WithoutCancel(ctx)); err != nil {
			s.report(ctx, at.caller, err)
		}
	}
	body := later(at)
	span, over := keep, func() { s.leaveQueue(context.WithoutCancel(ctx), at) }
	if at.reservation.Booked() {
		span, over = again(at.delay())+keep, func() {}
	}
	if s.places.giveBack(at, span, over) {
		return body
	}
	if at.inRedis { // the server forgets only since when it waits
		return s.handOver(ctx, at)
	}
	s.leaveQueue(context.WithoutCancel(ctx), at)
	s.places.drop(at)
	return away("This server keeps too many places of calls between two requests, of this caller or of all. Give the call an id, so that its place is in Redis.")
}

// leaveQueue ends a place whose caller did not ask again in time.
func (s *Server) leaveQueue(ctx context.Context, at *place) {
	var err error
	if at.inRedis {
		err = at.reservation.PutBackUnsure(ctx)
	} else {
		err = at.reservation.Cancel(ctx)
	}
	if err != nil {
		s.report(ctx, at.caller, err)
	}
}

// handOver returns the response when the server shuts down. The place moves to Redis, for another
// server.
func (s *Server) handOver(ctx context.Context, at *place) any {
	defer s.places.drop(at)
	if at.inRedis {
		if err := at.reservation.PutBack(context.WithoutCancel(ctx)); err != nil {
			s.report(ctx, at.caller, err)
		}
	} else {
		at.id = newID()
		joined := at.turns.Book(ctx, []reserve.Call{{ID: at.id, Costs: at.costs}})
		if err := joined[0].Err; err != nil {
			s.report(ctx, at.caller, err)
		}
		_ = at.reservation.Cancel(context.WithoutCancel(ctx))
	}
	body := later(at)
	body.RetryAfter = min(body.RetryAfter, millis(time.Second))
	return body
}

// early is the most by which the caller of a booking asks again before its turn.
const early = 2 * time.Second

// again returns after what time the caller of a booking asks again. Its turn may come earlier than
// forecast, for example because a pause ends, so it asks several times.
func again(delay time.Duration) time.Duration {
	return max(10*time.Millisecond, min(delay-min(early, delay/2), max(5*time.Second, min(delay/4, time.Minute))))
}

// delay is the time until the turn is expected. A call that waited as its limit was stopped has an earlier forecast.
func (at *place) delay() time.Duration {
	delay := at.reservation.Delay()
	if stopped := stopOf(at.turns.Stopped()); stopped != nil && stopped.Until.IsZero() {
		return max(delay, nextProbe)
	} else if stopped != nil {
		return max(delay, time.Until(stopped.Until))
	}
	return delay
}

func later(at *place) laterAnswer {
	r := at.reservation
	body := laterAnswer{ID: strings.TrimPrefix(at.id, prefix), Forecast: millis(at.delay()), stop: stopOf(at.turns.Stopped())}
	if r.Booked() {
		body.RetryAfter = millis(again(at.delay()))
	}
	if l := r.HeldBy(); l != nil {
		body.HeldBy = l.String()
	}
	return body
}
