package remote

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// keep is for how long a place is kept while nobody asks for it.
const keep = 10 * time.Second

// place is a call that waits. One request at a time has it: the last that asked under its id.
type place struct {
	need
	id          string // empty: it has none yet
	inRedis     bool   // it stands there under its id
	since       time.Time
	reservation *reserve.Reservation // nil: it has not joined yet

	mine    chan struct{} // holds a token while a request has the place
	evict   context.CancelFunc
	expires *time.Timer
	gone    bool // it is in no map any more
	kept    bool // it counts among those that are kept
}

// places are those that are kept under ids.
type places struct {
	mu   sync.Mutex
	byID map[string]*place
	kept int // that no request has …
	most int // … and may be
}

// errTaken is of a request whose place another one has now.
var errTaken = problem{Status: 409, Detail: "Another request waits under the same id now.", after: -1}

// claim returns the place of an id, or a new one, which the caller then has until it gives it
// back. The context that it returns ends when another request claims it. A place without an id is
// known to nobody.
func (p *places) claim(ctx context.Context, id string, n need) (context.Context, *place, error) {
	for {
		mine, evict := context.WithCancel(ctx)
		p.mu.Lock()
		at := p.byID[id]
		if id == "" || at == nil {
			at = &place{need: n, id: id, inRedis: id != "", since: time.Now(), mine: make(chan struct{}, 1), evict: evict}
			at.mine <- struct{}{}
			if id != "" {
				p.byID[id] = at
			}
			p.mu.Unlock()
			return mine, at, nil
		}
		if !at.same(n) {
			p.mu.Unlock()
			evict()
			return nil, nil, wrong("id", strings.TrimPrefix(id, prefix), "is of a call that needs something else: "+at.turns.String())
		}
		at.evict()
		at.evict = evict
		p.mu.Unlock()
		select {
		case at.mine <- struct{}{}:
		case <-mine.Done():
			evict()
			p.mu.Lock()
			gone := at.gone
			p.mu.Unlock()
			switch {
			case ctx.Err() != nil:
				return nil, nil, ctx.Err()
			case gone: // it was dropped, and nobody else wants it
				continue
			}
			return nil, nil, errTaken
		}
		p.mu.Lock()
		gone := at.gone
		p.count(at)
		if at.expires != nil {
			at.expires.Stop()
			at.expires = nil
		}
		p.mu.Unlock()
		if !gone {
			return mine, at, nil
		}
		<-at.mine
		evict()
	}
}

// known reports whether somebody waits under an id, or has waited just now.
func (p *places) known(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byID[id] != nil
}

// giveBack lets others have a place, and keeps it for so long; then it is over. It reports false
// if too many are kept: the request still has it then.
func (p *places) giveBack(at *place, span time.Duration, over func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept >= p.most {
		return false
	}
	p.kept++
	at.kept = true
	p.byID[at.id] = at
	var expires *time.Timer
	expires = time.AfterFunc(span, func() {
		if p.take(at, expires) {
			over()
			p.drop(at)
		}
	})
	at.expires = expires
	<-at.mine
	return true
}

// count notes that a place is kept no longer. The places must be locked.
func (p *places) count(at *place) {
	if at.kept {
		at.kept = false
		p.kept--
	}
}

// take has a place that nobody has asked for since its timer was set; false: somebody has.
func (p *places) take(at *place, expires *time.Timer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !at.gone && at.expires == expires && p.isIdle(at)
}

// isIdle has a place that no request has. The places must be locked.
func (p *places) isIdle(at *place) bool {
	select {
	case at.mine <- struct{}{}:
		return true
	default:
		return false
	}
}

// idle has all places that no request has.
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
	at.evict()
	<-at.mine
}

// newID is one that nobody guesses.
func newID() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it does not fail
	return hex.EncodeToString(random[:])
}
