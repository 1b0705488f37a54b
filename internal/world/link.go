package world

import (
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/fleetpace/fleetpace/internal/smallredis"
)

// link is the connection between a process and the server. Faults are decided when a message is sent. Each
// request has a connection of its own, as in a pool.
type link struct {
	*schedule
	server  *server
	events  []event
	process int
	trip    time.Duration // the time of a round trip
	timeout time.Duration // how long the process waits for a reply
	random  *rand.Rand

	strikes map[*event]int // how many messages each event has affected

	dead    bool              // the process is dead: nothing is sent or received
	longest time.Duration     // the longest time that a message took
	pending map[*request]bool // requests in flight
	stopped bool              // nothing happens in the process …
	later   []func()          // … until it continues: then these happen
}

// here plans something that happens in the process.
func (l *link) here(d time.Duration, what func()) {
	l.after(d, func() { l.happens(what) })
}

func (l *link) happens(what func()) {
	switch {
	case l.dead:
	case l.stopped:
		l.later = append(l.later, what)
	default:
		what()
	}
}

// stop stops everything in the process, as SIGSTOP does.
func (l *link) stop() { l.stopped = true }

// goOn makes the process continue.
func (l *link) goOn() {
	later := l.later
	l.stopped, l.later = false, nil
	for i, what := range later {
		if l.stopped {
			l.later = append(l.later, later[i:]...)
			return
		}
		l.happens(what)
	}
}

// request is a command in flight.
type request struct {
	*link
	n    int
	done func(reply any, err error)
}

// end passes the outcome to the process, once. A dead process gets none.
func (q *request) end(reply any, err error) {
	if q.pending[q] && !q.dead {
		delete(q.pending, q)
		q.happens(func() { q.done(reply, err) })
	}
}

func broken(op string, err error) error { return &net.OpError{Op: op, Net: "tcp", Err: err} }

// travel returns how long a message takes that is sent now.
func (l *link) travel() time.Duration {
	trip := l.trip
	var held time.Duration
	for i := range l.events {
		switch e := &l.events[i]; {
		case e.strikes(l.now, l.process, far):
			trip = e.by
		case e.strikes(l.now, l.process, hold):
			held = max(held, e.at+e.lasts-l.now+time.Microsecond)
		}
	}
	way := trip/2 + held
	l.longest = max(l.longest, way)
	return way
}

// vanishes reports whether a message that is sent or arrives now gets lost.
func (l *link) vanishes() bool {
	return l.dead || slices.ContainsFunc(l.events, func(e event) bool { return e.strikes(l.now, l.process, partition) })
}

// fate returns what happens to a message that is sent now, among some kinds of events, and its delay.
func (l *link) fate(kinds ...string) (what string, late time.Duration) {
	for i := range l.events {
		if e := &l.events[i]; e.strikes(l.now, l.process, kinds...) && l.random.Float64() < e.chance {
			l.strikes[e]++
			return e.what, time.Millisecond + time.Duration(l.random.Float64()*l.random.Float64()*float64(e.by))
		}
	}
	return "", 0
}

// send sends a command. Done is called once, unless the process dies.
func (l *link) send(args []string, done func(reply any, err error)) {
	if l.dead {
		return
	}
	l.count++
	q := &request{l, l.count, done}
	l.pending[q] = true
	if l.server.down {
		l.after(l.trip, func() { q.end(nil, broken("dial", syscall.ECONNREFUSED)) })
		return
	}
	l.after(l.timeout, func() { q.end(nil, broken("read", os.ErrDeadlineExceeded)) })
	what, late := l.fate(requestLost, requestLate, requestCopied, cutBefore, cutAfter, replyLost, replyLate)
	way := l.travel()
	switch what {
	case requestLost:
		return
	case cutBefore:
		l.after(way, func() { q.end(nil, broken("read", syscall.ECONNRESET)) })
		return
	case requestCopied:
		l.after(way+late, func() { l.server.receive(args, func(any) {}) })
	case requestLate:
		way += late
	}
	if l.vanishes() {
		return
	}
	l.after(way, func() {
		if !l.server.down {
			l.server.receive(args, func(reply any) { q.reply(reply, what, late) })
		}
	})
}

// reply sends a reply on its way back.
func (q *request) reply(reply any, what string, late time.Duration) {
	way := q.travel()
	var err error
	switch what {
	case replyLost:
		return
	case replyLate:
		way += late
	case cutAfter:
		reply, err = nil, broken("read", syscall.ECONNRESET)
	}
	if refused, ok := reply.(smallredis.Refusal); ok {
		reply, err = nil, refused
	}
	q.after(way, func() {
		if !q.vanishes() {
			q.end(reply, err)
		}
	})
}

// breakAll breaks all connections. Requests in flight still arrive.
func (l *link) breakAll() {
	all := slices.SortedFunc(maps.Keys(l.pending), func(a, b *request) int { return a.n - b.n })
	for _, q := range all {
		q.end(nil, broken("read", syscall.ECONNRESET))
	}
}
