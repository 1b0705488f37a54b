package reserve_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// network is the way between the processes of a history and its Redis. Every
// command travels as a message of its own: it arrives some time after it was
// written, is carried out in no time, and its reply arrives some time later. What
// goes wrong on the way is decided by the seed, the process and what the message
// says, and by nothing that a scheduler decides.
type network struct {
	plan  *plan
	redis *simRedis
	log   *eventLog

	mu   sync.Mutex
	ends []*end
}

// random is a source of its own for everything that has a name.
func (p *plan) random(name string, numbers ...int) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, name, numbers)
	return rand.New(rand.NewPCG(p.seed, h.Sum64()))
}

// dial opens a connection of a process.
func (n *network) dial(ctx context.Context, process int) (net.Conn, error) {
	pause := n.plan.request[process] + n.plan.reply
	if f := n.plan.at(since(n), process, partition, hold); f != nil {
		pause += n.plan.until(n, f) // the first packet is sent again until it gets through
	}
	select {
	case <-time.After(pause):
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
	}
	if n.plan.at(since(n), process, down) != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	e := &end{network: n, process: process, wake: make(chan struct{}, 1)}
	e.peer = server.NewPeer(bufio.NewWriter(&e.out))
	n.mu.Lock()
	n.ends = append(n.ends, e)
	n.mu.Unlock()
	return e, nil
}

// reset breaks all connections of a process, or of all.
func (n *network) reset(process int) {
	n.mu.Lock()
	ends := append([]*end(nil), n.ends...)
	n.ends = n.ends[:0]
	n.mu.Unlock()
	for _, e := range ends {
		if process < 0 || e.process == process {
			e.fail(syscall.ECONNRESET)
		} else {
			n.mu.Lock()
			n.ends = append(n.ends, e)
			n.mu.Unlock()
		}
	}
}

func since(n *network) time.Duration { return time.Since(n.plan.start) }

// nanos sets every message apart from all others by less than a microsecond, so
// that no two things happen at the same moment.
func nanos(random *rand.Rand) time.Duration { return time.Duration(random.IntN(1000)) }

// end is the client's end of a connection.
type end struct {
	network *network
	process int
	peer    *server.Peer // at the other end
	out     bytes.Buffer // what it writes

	mu       sync.Mutex
	partial  []byte    // of a command that was not written as a whole
	arrived  time.Time // when the last request arrives
	answered time.Time // when the last reply does
	inbox    []byte
	err      error // of the next read, once the inbox is empty, and of every write
	deadline time.Time
	wake     chan struct{}
}

// Write sends commands on their way.
func (e *end) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return 0, &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}
	}
	e.partial = append(e.partial, b...)
	for {
		args, rest, ok := command(e.partial)
		if !ok {
			return len(b), nil
		}
		e.partial = rest
		e.send(args)
	}
}

// send decides the fate of a message. The end must be locked.
func (e *end) send(args []string) {
	n := e.network
	random := n.plan.random(strings.Join(args, " "), e.process)
	fate := n.plan.fate(random, since(n), e.process)
	delay := n.plan.request[e.process] + nanos(random)
	switch fate.kind {
	case dropRequest:
		n.log.add("net p%d %s never arrives", e.process, args[0])
		return
	case resetBefore:
		n.log.add("net p%d %s is refused by a reset", e.process, args[0])
		time.AfterFunc(delay, func() { e.fail(syscall.ECONNRESET) })
		return
	case delayRequest:
		n.log.add("net p%d %s arrives %v late", e.process, args[0], fate.delay)
		delay += fate.delay
	}
	if f := n.plan.at(since(n), e.process, hold); f != nil {
		delay += n.plan.until(n, f)
	}
	at := time.Now().Add(delay)
	if !at.After(e.arrived) {
		at = e.arrived.Add(1)
	}
	e.arrived = at
	replyDelay := n.plan.reply + nanos(random)
	time.AfterFunc(time.Until(at), func() { e.arrive(args, fate, replyDelay) })
}

// arrive is the moment at which the server has a command.
func (e *end) arrive(args []string, fate fate, delay time.Duration) {
	n := e.network
	if n.plan.at(since(n), e.process, partition) != nil {
		return
	}
	if n.plan.at(since(n), e.process, down) != nil {
		e.fail(syscall.ECONNRESET)
		return
	}
	lost := fate.kind == cutAfter || fate.kind == loseReply || fate.kind == cutMid
	reply := n.redis.serve(e, args, lost)
	switch fate.kind {
	case loseReply:
		n.log.add("net p%d the reply of %s is lost", e.process, args[0])
		return
	case cutAfter:
		n.log.add("net p%d cut after %s", e.process, args[0])
		time.AfterFunc(delay, func() { e.fail(io.EOF) })
		return
	case cutMid:
		n.log.add("net p%d cut in the reply of %s", e.process, args[0])
		time.AfterFunc(delay, func() { e.deliver(reply[:len(reply)/2]); e.fail(io.EOF) })
		return
	case delayReply:
		n.log.add("net p%d the reply of %s is %v late", e.process, args[0], fate.delay)
		delay += fate.delay
	}
	if f := n.plan.at(since(n), e.process, hold); f != nil {
		delay += n.plan.until(n, f)
	}
	e.mu.Lock()
	at := time.Now().Add(delay)
	if !at.After(e.answered) {
		at = e.answered.Add(1)
	}
	e.answered = at
	e.mu.Unlock()
	time.AfterFunc(time.Until(at), func() {
		if n.plan.at(since(n), e.process, partition) == nil && e.deliver(reply) {
			n.redis.heard(args)
		}
	})
}

// deliver reports whether the connection still stands.
func (e *end) deliver(b []byte) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return false
	}
	e.inbox = append(e.inbox, b...)
	e.stir()
	return true
}

// fail breaks the connection: what has not been read yet still can be.
func (e *end) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.err = err
		e.stir()
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
		if len(e.inbox) > 0 {
			n := copy(b, e.inbox)
			e.inbox = e.inbox[n:]
			e.mu.Unlock()
			return n, nil
		}
		err, deadline := e.err, e.deadline
		e.mu.Unlock()
		if err != nil {
			if err == io.EOF { //nolint:errorlint // it is ours, and io.Reader wants it bare
				return 0, err
			}
			return 0, &net.OpError{Op: "read", Net: "tcp", Err: err}
		}
		if deadline.IsZero() {
			<-e.wake
			continue
		}
		left := time.Until(deadline)
		if left <= 0 {
			return 0, &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
		}
		timer := time.NewTimer(left)
		select {
		case <-e.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Close ends the connection on this side. What is on its way still arrives.
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

// command cuts the first command off what a client wrote.
func command(b []byte) (args []string, rest []byte, ok bool) {
	count, b, ok := header(b, '*')
	if !ok {
		return nil, nil, false
	}
	for range count {
		var size int
		if size, b, ok = header(b, '$'); !ok || len(b) < size+2 {
			return nil, nil, false
		}
		args, b = append(args, string(b[:size])), b[size+2:]
	}
	return args, b, true
}

func header(b []byte, kind byte) (value int, rest []byte, ok bool) {
	i := bytes.IndexByte(b, '\n')
	if i < 2 || b[0] != kind {
		return 0, nil, false
	}
	for _, digit := range b[1 : i-1] {
		value = 10*value + int(digit-'0')
	}
	return value, b[i+1:], true
}
