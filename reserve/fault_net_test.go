package reserve_test

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// network is the way between the processes of a history and its Redis. What goes wrong on it
// is decided when a request is written.
type network struct {
	plan  *plan
	redis *faultyRedis
	start time.Time

	mu     sync.Mutex
	random *rand.Rand
	ends   []*end
}

func (n *network) now() time.Duration { return time.Since(n.start) }

// left is how long a trouble lasts from now, and a little, so that it is over then.
func (n *network) left(f *trouble) time.Duration { return f.to - n.now() + 1 }

// dial opens a connection of a process.
func (n *network) dial(ctx context.Context, process int) (net.Conn, error) {
	pause := 2 * n.plan.way[process]
	if f := n.plan.at(n.now(), process, partition, hold); f != nil {
		pause += n.left(f) // the first packet is sent again until it gets through
	}
	select {
	case <-time.After(pause):
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
	}
	if n.plan.at(n.now(), process, down) != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	server, err := n.redis.Dial()
	if err != nil {
		return nil, err
	}
	e := &end{network: n, process: process, server: server, wake: make(chan struct{}, 1)}
	n.mu.Lock()
	n.ends = append(n.ends, e)
	n.mu.Unlock()
	go e.listen()
	return e, nil
}

// reset breaks all connections.
func (n *network) reset() {
	n.mu.Lock()
	ends := n.ends
	n.ends = nil
	n.mu.Unlock()
	for _, e := range ends {
		e.fail(syscall.ECONNRESET)
	}
}

// fate is what happens to a request that is written now, or to its reply, and a delay.
func (n *network) fate(process int) (what string, delay time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range n.plan.troubles {
		if now := n.now(); f.from <= now && now < f.to && (f.process < 0 || f.process == process) &&
			slices.Contains(ofMessages, f.what) && n.random.Float64() < f.chance {
			return f.what, time.Millisecond + time.Duration(n.random.Float64()*n.random.Float64()*float64(longDelay-time.Millisecond))
		}
	}
	return "", 0
}

// losesNews reports whether what is told now does not arrive.
func (n *network) losesNews(process int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := n.plan.at(n.now(), process, loseNews)
	return f != nil && n.random.Float64() < f.chance
}

// cutNews breaks the connections that hear news.
func (n *network) cutNews() {
	n.mu.Lock()
	ends := slices.Clone(n.ends)
	n.mu.Unlock()
	for _, e := range ends {
		e.mu.Lock()
		news := e.news
		e.mu.Unlock()
		if news {
			e.fail(syscall.ECONNRESET)
		}
	}
}

// end is the client's end of a connection. What the server says is read at once, and kept until
// it arrives.
type end struct {
	network *network
	process int
	server  net.Conn

	mu       sync.Mutex
	fate     string // of what the server says next
	late     time.Duration
	arrives  time.Time // the last request, and the last reply
	answered time.Time
	pending  int  // requests under way
	news     bool // it hears those
	inbox    []byte
	err      error // of the next read, once the inbox is empty, and of every write
	deadline time.Time
	wake     chan struct{}
}

// Write sends a request on its way.
func (e *end) Write(b []byte) (int, error) {
	n := e.network
	fate, late := n.fate(e.process)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return 0, &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}
	}
	delay := n.plan.way[e.process]
	e.news = e.news || bytes.Contains(b, []byte("\r\nsubscribe\r\n"))
	switch fate {
	case dropRequest:
		return len(b), nil
	case resetBefore:
		time.AfterFunc(delay, func() { e.fail(syscall.ECONNRESET) })
		return len(b), nil
	case delayRequest:
		delay += late
	}
	if f := n.plan.at(n.now(), e.process, hold); f != nil {
		delay += n.left(f)
	}
	e.arrives = after(time.Now().Add(delay), e.arrives)
	e.pending++
	text := bytes.Clone(b)
	time.AfterFunc(time.Until(e.arrives), func() { e.arrive(text, fate, late) })
	return len(b), nil
}

// after is a moment, or the first one after another.
func after(moment, other time.Time) time.Time {
	if moment.After(other) {
		return moment
	}
	return other.Add(1)
}

// arrive is the moment at which the server has a request, also if the client has gone.
func (e *end) arrive(text []byte, fate string, late time.Duration) {
	n := e.network
	if n.plan.at(n.now(), e.process, partition) == nil {
		switch refused := n.redis.refuses(); {
		case n.plan.at(n.now(), e.process, down) != nil:
			e.fail(syscall.ECONNRESET)
		case refused != "":
			e.say(bytes.Repeat([]byte("-"+refused+"\r\n"), commands(text)))
		default:
			e.mu.Lock()
			e.fate, e.late = fate, late
			e.mu.Unlock()
			_, _ = e.server.Write(text)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pending--; e.pending == 0 && e.err != nil {
		_ = e.server.Close()
	}
}

// commands is how many a text has.
func commands(text []byte) int { return max(1, bytes.Count(text, []byte("\n*"))+1) }

// listen takes in what the server says.
func (e *end) listen() {
	for {
		text := make([]byte, 1<<16)
		n, err := e.server.Read(text)
		if err != nil {
			e.fail(io.EOF)
			return
		}
		e.say(text[:n])
	}
}

// say sends what the server says on its way.
func (e *end) say(text []byte) {
	n := e.network
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.news && n.losesNews(e.process) {
		return
	}
	delay := n.plan.way[e.process]
	var err error
	switch e.fate {
	case loseReply:
		return
	case cutAfter:
		text, err = nil, io.EOF
	case cutMid:
		text, err = text[:len(text)/2], io.EOF
	case delayReply:
		delay += e.late
	}
	if f := n.plan.at(n.now(), e.process, hold); f != nil {
		delay += n.left(f)
	}
	e.answered = after(time.Now().Add(delay), e.answered)
	time.AfterFunc(time.Until(e.answered), func() {
		if n.plan.at(n.now(), e.process, partition) == nil {
			e.deliver(text, err)
		}
	})
}

func (e *end) deliver(text []byte, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return
	}
	e.inbox, e.err = append(e.inbox, text...), err
	e.stir()
}

// fail breaks the connection: what has not been read yet still can be, and requests under way
// still arrive.
func (e *end) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.err = err
		e.stir()
	}
	if e.pending == 0 {
		_ = e.server.Close()
	}
}

func (e *end) stir() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

func (e *end) Read(b []byte) (int, error) {
	for {
		e.mu.Lock()
		n := copy(b, e.inbox)
		e.inbox = e.inbox[n:]
		err, deadline := e.err, e.deadline
		e.mu.Unlock()
		switch {
		case n > 0:
			return n, nil
		case err == io.EOF: //nolint:errorlint // it is ours, and io.Reader wants it bare
			return 0, err
		case err != nil:
			return 0, &net.OpError{Op: "read", Net: "tcp", Err: err}
		case deadline.IsZero():
			<-e.wake
			continue
		case !time.Now().Before(deadline):
			return 0, &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
		}
		timer := time.NewTimer(time.Until(deadline))
		select {
		case <-e.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (e *end) Close() error {
	e.fail(net.ErrClosed)
	return nil
}

func (e *end) SetReadDeadline(at time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deadline = at
	e.stir()
	return nil
}

func (e *end) SetWriteDeadline(time.Time) error { return nil }
func (e *end) SetDeadline(at time.Time) error   { return e.SetReadDeadline(at) }
func (e *end) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (e *end) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
