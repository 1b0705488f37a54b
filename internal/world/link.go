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

// link is the way between a process and the server. What goes wrong on it is decided when a message
// is sent. Each request has a connection of its own, as those of a pool have.
type link struct {
	*schedule
	server  *server
	events  []event
	process int
	trip    time.Duration // there and back
	timeout time.Duration // of a reply
	random  *rand.Rand

	strikes map[*event]int // counts messages that were struck

	dead    bool              // the process is: nothing goes out or comes in
	longest time.Duration     // that a message was on its way
	pending map[*request]bool // under way
	stopped bool              // nothing happens in the process …
	later   []func()          // … until it goes on
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

// stop lets nothing happen in the process, as SIGSTOP does.
func (l *link) stop() { l.stopped = true }

// goOn lets all of it happen.
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

// request is a command that is under way.
type request struct {
	*link
	n    int
	done func(reply any, err error)
}

// end tells the process how it ended, once. Who is dead is told nothing.
func (q *request) end(reply any, err error) {
	if q.pending[q] && !q.dead {
		delete(q.pending, q)
		q.happens(func() { q.done(reply, err) })
	}
}

func broken(op string, err error) error { return &net.OpError{Op: op, Net: "tcp", Err: err} }

// travel is how long a message is on its way that is sent now.
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

// vanishes reports whether what is sent or arrives now does not get through.
func (l *link) vanishes() bool {
	return l.dead || slices.ContainsFunc(l.events, func(e event) bool { return e.strikes(l.now, l.process, partition) })
}

// fate is what happens to a message that is sent now, of some kinds of events, and a delay.
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

// breakAll breaks all connections. Requests that are under way still arrive.
func (l *link) breakAll() {
	all := slices.SortedFunc(maps.Keys(l.pending), func(a, b *request) int { return a.n - b.n })
	for _, q := range all {
		q.end(nil, broken("read", syscall.ECONNRESET))
	}
}
