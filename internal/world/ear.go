package world

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// ear is the connection on which a process hears news, as go-redis wants it: it speaks RESP2.
// Everything else of a process goes another way: see link.send.
type ear struct {
	*link
	lock     sync.Locker // of the world
	listener *listener
	arrived  time.Duration // the last thing that was said

	mu       sync.Mutex
	inbox    []byte
	err      error // of the next read once the inbox is empty
	deadline time.Time
	wake     chan struct{}
}

// listen opens such a connection, at once. The world must be locked.
func (l *link) listen(lock sync.Locker) (net.Conn, error) {
	if l.server.down && !l.dead {
		return nil, broken("dial", syscall.ECONNREFUSED)
	}
	e := &ear{link: l, lock: lock, wake: make(chan struct{}, 1)}
	l.ears[e] = true
	return e, nil
}

// Write sends commands on their way.
func (e *ear) Write(text []byte) (int, error) {
	e.lock.Lock()
	defer e.lock.Unlock()
	if !e.ears[e] {
		return 0, broken("write", syscall.EPIPE)
	}
	if e.vanishes() {
		return len(text), nil
	}
	commands := parseCommands(text)
	e.after(e.travel(), func() {
		for _, args := range commands {
			if !e.server.down && e.ears[e] {
				e.carryOut(args)
			}
		}
	})
	return len(text), nil
}

// carryOut is what the server does with a command.
func (e *ear) carryOut(args []string) {
	switch args[0] {
	case "subscribe":
		e.listener = &listener{channel: args[1], hear: func(message string) {
			if what, _ := e.fate(newsLost); what == "" {
				e.say("message", args[1], message)
			}
		}}
		e.server.listeners[e.listener] = true
		e.sayText(fmt.Sprintf("*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:1\r\n", len(args[1]), args[1]))
	case "ping":
		e.say("pong", "")
	default:
		e.sayText("-ERR unknown command\r\n")
	}
}

func (e *ear) say(words ...string) {
	text := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	e.sayText(text)
}

// sayText sends what the server says on its way; it arrives in order.
func (e *ear) sayText(text string) {
	if e.server.frozen { // nothing is said until it goes on
		e.server.waiting = append(e.server.waiting, func() { e.sayText(text) })
		return
	}
	e.arrived = max(e.arrived, e.now+e.travel())
	e.at(e.arrived, func() {
		if e.vanishes() {
			return
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.inbox = append(e.inbox, text...)
		e.stir()
	})
}

// fail breaks the connection. The world must be locked.
func (e *ear) fail(err error) {
	delete(e.ears, e)
	delete(e.server.listeners, e.listener)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.err = err
		e.stir()
	}
}

func (e *ear) stir() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Read reads what has arrived.
func (e *ear) Read(b []byte) (int, error) {
	for {
		e.mu.Lock()
		n := copy(b, e.inbox)
		e.inbox = e.inbox[n:]
		err, deadline := e.err, e.deadline
		e.mu.Unlock()
		left := time.Until(deadline)
		switch {
		case n > 0:
			return n, nil
		case err != nil:
			return 0, err
		case deadline.IsZero():
			<-e.wake
			continue
		case left <= 0:
			return 0, broken("read", os.ErrDeadlineExceeded)
		}
		timer := time.NewTimer(left)
		select {
		case <-e.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Close ends the connection.
func (e *ear) Close() error {
	e.lock.Lock()
	defer e.lock.Unlock()
	e.fail(io.EOF)
	return nil
}

// SetReadDeadline bounds the next read.
func (e *ear) SetReadDeadline(at time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deadline = at
	e.stir()
	return nil
}

// SetWriteDeadline does nothing: a write takes no time.
func (e *ear) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline is SetReadDeadline.
func (e *ear) SetDeadline(at time.Time) error { return e.SetReadDeadline(at) }

// LocalAddr is none.
func (e *ear) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr is none.
func (e *ear) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// parseCommands reads the commands of a text of RESP, which is whole.
func parseCommands(text []byte) (commands [][]string) {
	line := func() string {
		word, rest, _ := bytes.Cut(text, []byte("\r\n"))
		text = rest
		return string(word)
	}
	for len(text) > 0 {
		n, err := strconv.Atoi(line()[1:])
		if err != nil {
			return commands
		}
		args := make([]string, n)
		for i := range args {
			line()
			args[i] = line()
		}
		commands = append(commands, args)
	}
	return commands
}
