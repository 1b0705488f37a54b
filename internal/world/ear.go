package world

import (
	"errors"
	"time"
)

// ear is the connection on which a process hears news. It behaves as engine.Process does with a connection
// of go-redis: it subscribes, tests a silent connection, closes it in the end, and connects again.
type ear struct {
	*client
	hears   *listener     // nil: not connected
	said    time.Duration // when the last message of the server arrives
	heard   time.Duration // when the process last received something
	failed  int           // how many times in a row
	pinging bool
}

const (
	quiet   = time.Second // after so much silence, and then again, the connection is tested
	silence = 3 * quiet   // after so much silence, the connection is closed
)

var errCut = errors.New("the connection is cut")

// listen begins to hear news, after some failures.
func (m *client) listen(failed int) {
	e := &ear{client: m, heard: m.now, failed: failed}
	m.ear = e
	if m.server.down {
		m.here(m.trip, e.fail)
		return
	}
	e.here(quiet, e.looks)
	e.says(3*m.travel(), func() { // the handshake, and the subscription
		e.hears = &listener{channel: m.world.channel(), hear: func(message string) {
			heard, ok := m.hears(message)
			e.hear(func(now time.Time) {
				if m.newsAt = m.now; ok {
					m.engine.News(now, heard)
				} else {
					m.engine.Alive(now)
				}
			})
		}}
		m.server.listeners = append(m.server.listeners, e.hears)
		e.hear(func(now time.Time) { m.engine.Subscribed(now) })
	})
}

// says sends something to the server.
func (e *ear) says(way time.Duration, arrives func()) {
	if e.vanishes() {
		return
	}
	e.after(way, func() {
		switch {
		case e.ear != e || e.server.down:
		case e.server.frozen:
			e.server.waiting = append(e.server.waiting, func() { e.says(0, arrives) })
		default:
			arrives()
		}
	})
}

// hear sends a message of the server on its way: messages arrive in order.
func (e *ear) hear(event func(now time.Time)) {
	if e.server.frozen { // the server sends nothing until it continues
		e.server.waiting = append(e.server.waiting, func() { e.hear(event) })
		return
	}
	if what, _ := e.fate(newsLost); what != "" {
		return
	}
	e.said = max(e.said, e.now+e.travel())
	e.here(e.said-e.now, func() {
		if e.ear == e && !e.vanishes() {
			e.heard, e.failed, e.pinging = e.now, 0, false
			e.step(event)
		}
	})
}

// looks checks whether the connection is silent, and whether the engine still wants news.
func (e *ear) looks() {
	rest := e.heard + quiet - e.now
	switch {
	case e.ear != e:
		return
	case rest > 0 && !e.pinging:
		e.here(rest, e.looks)
		return
	case !e.wanted:
		e.close()
		return
	case e.now-e.heard >= silence:
		e.fail()
		return
	case e.hears != nil:
		e.pinging = true
		e.says(e.travel(), func() { e.hear(e.engine.Alive) })
	}
	e.here(quiet, e.looks)
}

// close ends the connection.
func (e *ear) close() {
	if e.ear == e {
		e.ear = nil
	}
	e.server.forget(e.hears)
}

// fail breaks the connection; a new one is made after a while.
func (e *ear) fail() {
	if e.ear != e {
		return
	}
	e.server.forget(e.hears)
	e.step(e.engine.Unsubscribed)
	again := &ear{client: e.client}
	e.ear = again // no other connection is made meanwhile
	pause, _ := e.engine.TriesAgain(errCut, min(e.failed, 3))
	e.here(pause, func() {
		if e.ear = nil; e.wanted {
			e.listen(e.failed + 1)
		}
	})
}
