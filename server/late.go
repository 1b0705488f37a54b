package server

import (
	"context"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// givenTurn is a turn that was granted, which its caller may return.
type givenTurn struct {
	turns       *reserve.Joint
	costs       []int
	id          string
	token       string
	inRedis     bool
	since       time.Time
	reservation *reserve.Reservation
	at          time.Time // when the response was sent
}

// givenTurns are the turns of the last responses, one for each id. It keeps at most `most` turns,
// each for as long as a place.
type givenTurns struct {
	mu    sync.Mutex
	most  int
	byID  map[string]*givenTurn
	order []*givenTurn // the oldest first, including returned turns
}

// keep remembers the turn of a response.
func (g *givenTurns) keep(token string, at *place) {
	t := &givenTurn{turns: at.turns, costs: at.costs, id: at.id, token: token, inRedis: at.inRedis, since: at.since, reservation: at.reservation, at: time.Now()}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.byID[t.id] = t
	g.order = append(g.order, t)
	for oldest := g.order[0]; len(g.order) > g.most || t.at.Sub(oldest.at) > keep; oldest = g.order[0] {
		if g.byID[oldest.id] == oldest {
			delete(g.byID, oldest.id)
		}
		g.order[0] = nil
		g.order = g.order[1:]
	}
}

// find takes out the last turn of an id, or returns nil if it is unknown. If `named` is not empty,
// the turn must have that token.
func (g *givenTurns) find(id, named string) *givenTurn {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.byID[id]
	if t == nil || named != "" && named != t.token {
		return nil
	}
	delete(g.byID, id)
	if time.Since(t.at) > keep {
		return nil
	}
	return t
}

// handBack lets a call whose turn came too late wait again at its old place. It does nothing if the
// id has no known turn, or the call waits already.
//
// The permits go back to the limit only if the request names the turn. Otherwise the request may be
// a delayed copy, and the turn may be in use.
func (s *Server) handBack(ctx context.Context, q *waitRequest, at *place, way time.Duration) {
	if at.id == "" {
		return
	}
	named := ""
	if q.Late {
		named = q.Turn
		_ = s.endLease(ctx, named) // most turns have none; else it ends by itself
	}
	turn := s.given.find(at.id, named)
	if turn == nil || !q.Late || at.reservation != nil || !at.same(turn.turns, turn.costs) {
		return
	}
	if err := turn.reservation.Late(way, named != ""); err != nil {
		s.report(ctx, at.caller, err)
		return
	}
	at.reservation, at.since, at.inRedis = turn.reservation, turn.since, turn.inRedis
}
