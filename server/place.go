package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// keep is how long the server keeps a place whose caller does not ask again.
const keep = 10 * time.Second

// place is a call that waits. One request at a time owns it: the last one with its id.
type place struct {
	need
	id          string // empty: no id yet
	inRedis     bool   // the place is in Redis, under its id
	untold      bool   // the caller does not know the id
	caller      caller // of the last request
	since       time.Time
	reservation *reserve.Reservation // nil: it has not joined yet

	mine    chan struct{} // full while a request owns the place; nil: no other request knows it
	owner   *poll         // the request that owns the place
	expires *time.Timer
	gone    bool // the place was dropped
	kept    bool // it counts in places.kept, for its caller
}

// places are the waiting calls that have an id.
type places struct {
	mu   sync.Mutex
	byID map[string]*place
	kept fair // places that no request owns
}

// claim returns the place of an id, or a new one. The request owns it until it calls giveBack or
// drop, or its context ends with errTaken. A place without an id cannot be claimed by others.
func (p *places) claim(by *poll, id string, n need) (*place, error) {
	if id == "" {
		return &place{need: n, caller: by.caller, since: time.Now()}, nil
	}
	for {
		p.mu.Lock()
		at := p.byID[id]
		if at == nil {
			at = &place{need: n, id: id, inRedis: true, caller: by.caller, since: time.Now(), mine: make(chan struct{}, 1), owner: by}
			at.mine <- struct{}{}
			p.byID[id] = at
			p.mu.Unlock()
			return at, nil
		}
		if !at.same(n.turns, n.costs) {
			p.mu.Unlock()
			return nil, wrong("id", strings.TrimPrefix(id, prefix), "belongs to a call with other limits or costs: "+at.turns.String()+"; use each id for one call")
		}
		if at.owner != nil {
			at.owner.end(errTaken)
		}
		at.owner = by
		p.mu.Unlock()
		select {
		case at.mine <- struct{}{}:
		case <-by.Done():
			return nil, context.Cause(by)
		}
		p.mu.Lock()
		gone := at.gone
		p.count(at)
		at.caller = by.caller
		if at.expires != nil {
			at.expires.Stop()
			at.expires = nil
		}
		p.mu.Unlock()
		if !gone {
			return at, nil
		}
		<-at.mine
	}
}

// known reports whether a call waits under an id, or has just waited.
func (p *places) known(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byID[id] != nil
}

// giveBack ends the request's ownership. It keeps the place for `span`, and then calls over. It
// reports false if too many places are kept, or too many of the caller; then the request still owns it.
func (p *places) giveBack(at *place, span time.Duration, over func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.kept.take(at.caller) {
		return false
	}
	at.kept = true
	p.byID[at.id] = at
	var expires *time.Timer
	expires = time.AfterFunc(span, func() {
		if p.take(at, expires) {
			over()
			p.drop(at)
		}
	})
	at.expires, at.owner = expires, nil
	if at.mine == nil {
		at.mine = make(chan struct{}, 1)
	} else {
		<-at.mine
	}
	return true
}

// count notes that a place is no longer kept. The places must be locked.
func (p *places) count(at *place) {
	if at.kept {
		at.kept = false
		p.kept.free(at.caller)
	}
}

// take becomes the owner of a place whose timer has fired. It reports false if a request has
// claimed the place since the timer was set.
func (p *places) take(at *place, expires *time.Timer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !at.gone && at.expires == expires && p.isIdle(at)
}

// isIdle becomes the owner of a place that no request owns. The places must be locked.
func (p *places) isIdle(at *place) bool {
	select {
	case at.mine <- struct{}{}:
		return true
	default:
		return false
	}
}

// idle becomes the owner of all places that no request owns, and returns them, the oldest first.
func (p *places) idle() (all []*place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.byID {
		if p.isIdle(at) {
			all = append(all, at)
		}
	}
	slices.SortFunc(all, func(a, b *place) int { return a.since.Compare(b.since) })
	return all
}

// drop forgets a place.
func (p *places) drop(at *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byID[at.id] == at {
		delete(p.byID, at.id)
	}
	at.gone = true
	p.count(at)
	if at.mine != nil {
		<-at.mine
	}
}

// callerHeader has the name that a caller gives itself, such as its host and process.
const callerHeader = "Fleetpace-Caller"

const longestCaller = 64 // bytes

// callerOf returns the name of a caller. People read it, so it has only characters that are safe everywhere.
func callerOf(r *http.Request) string {
	name := r.Header.Get(callerHeader)
	return strings.Map(func(c rune) rune {
		if c > ' ' && c < 0x7f {
			return c
		}
		return '_'
	}, name[:min(len(name), longestCaller)])
}

// attemptHeader has the name of a request that waits, and those of the requests before it whose responses did not
// arrive, up to three. The names are random, as they name leases of slots.
const attemptHeader = "Fleetpace-Attempt"

// isAttempt reports whether a text may name a request. A token has the name, and JSON would change other bytes.
func isAttempt(name string) bool {
	return len(name) >= 16 && len(name) <= 64 && !strings.ContainsFunc(name, func(c rune) bool { return c < '!' || c > '~' })
}

// attemptsOf returns the name of a request, and those of the requests before it. Other headers have none.
func attemptsOf(r *http.Request) (own string, lost []string) {
	names := strings.Fields(r.Header.Get(attemptHeader))
	if len(names) == 0 || len(names) > 4 || slices.ContainsFunc(names, func(n string) bool { return !isAttempt(n) }) {
		return "", nil
	}
	return names[0], names[1:]
}

// ownID returns the id of a call with slots that has none. People see it, and it does not tell the name of the request.
func ownID(caller, attempt string) string {
	sum := sha256.Sum256([]byte(attempt))
	return prefix + caller + "/" + hex.EncodeToString(sum[:16]) + mark
}

// doing returns what people see of a call that holds slots: its id, and its caller. Another caller may ask with the
// same id, so the id itself has no caller, unless the server has made it.
func doing(c caller, id string) string {
	if id == "" || c.name == "" || made.MatchString(id) {
		return id
	}
	return "http/" + c.name + " " + strings.TrimPrefix(id, prefix)
}

// freeLost frees the slots that responses have granted which did not arrive.
func (s *Server) freeLost(ctx context.Context, n need, id string, c caller, lost []string) {
	if !n.slots || id == "" && c.name == "" {
		return
	}
	for _, name := range lost {
		l := reserve.Lease{Name: name, Doing: doing(c, cmp.Or(id, ownID(c.name, name)))}
		if _, err := n.turns.EndLease(ctx, l, n.costs...); err != nil {
			s.log(ctx, c, "could not free the slots of a lost response; they are held until their lease ends", err)
		}
	}
}

// newID returns an id that cannot be guessed, with its prefix. Without the prefix it is a token.
func newID() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	id := append(make([]byte, 0, len(prefix)+2*len(random)+len(mark)), prefix...)
	return string(append(hex.AppendEncode(id, random[:]), mark...))
}

// mark ends the ids that a server has made, so that any server knows them.
const mark = "~"

var made = regexp.MustCompile(`[0-9a-f]{32}` + mark + `$`)

// leaves reports whether the call gives up its place at a hard stop. Its id is the server's, or it waits no longer than
// max_wait. Otherwise its caller books it, and comes back when it likes.
func (at *place) leaves(p *poll) bool { return p.maxWait >= 0 || made.MatchString(at.id) }
