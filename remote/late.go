package remote

import (
	"context"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// givenTurn is the turn of an answer, which its caller may hand back.
type givenTurn struct {
	need
	id          string
	token       string
	inRedis     bool
	since       time.Time
	reservation *reserve.Reservation
	at          time.Time // the answer
}

// givenTurns are the turns of the last answers, one for each id: as many as are allowed, for as
// long as places are kept.
type givenTurns struct {
	mu    sync.Mutex
	most  int
	byID  map[string]*givenTurn
	order []*givenTurn // the oldest first; it has those that were handed back, too
}

// keep notes the turn of an answer.
func (g *givenTurns) keep(token string, at *place) {
	t := &givenTurn{need: at.need, id: at.id, token: token, inRedis: at.inRedis, since: at.since, reservation: at.reservation, at: time.Now()}
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

// find takes the turn off that was given under an id last; nil: none is known. One that is named
// is taken off only if it is that.
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

// handBack lets a call whose turn came too late wait again in the place that it had. Where no turn
// is known that was given under its id, or the call waits already, nothing is handed back. A turn
// goes back to the limit only if the request names it. Otherwise the request may be a copy that was
// on the way for long, and the turn one that is used.
func (s *Server) handBack(ctx context.Context, q *waitRequest, at *place, t terms) {
	if at.id == "" {
		return
	}
	named := ""
	if q.Late {
		named = q.Turn
	}
	turn := s.given.find(at.id, named)
	if turn == nil || !q.Late || at.reservation != nil || !turn.same(at.need) {
		return
	}
	if u := s.turns.find(turn.token); u != nil {
		s.turns.free(turn.token, u)
		s.turns.forget(turn.token)
	}
	if err := turn.reservation.Late(t.way, named != ""); err != nil {
		s.report(ctx, err)
		return
	}
	at.reservation, at.since, at.inRedis = turn.reservation, turn.since, turn.inRedis
}
