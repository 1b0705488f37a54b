package main

import (
	"errors"
	"net"
	"sync"
	"time"
)

// proxy puts Redis further away: each byte arrives so much later than it was sent,
// in order, and as many as come. It belongs to this process and ends with it.
type proxy struct {
	listener net.Listener
	backend  string
	oneWay   time.Duration

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]struct{}
	ended  sync.WaitGroup
}

func startProxy(backend string, oneWay time.Duration) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: listener, backend: backend, oneWay: oneWay, open: make(map[net.Conn]struct{})}
	p.ended.Go(p.accept)
	return p, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		server, err := net.Dial("tcp", p.backend) //nolint:noctx // loopback: it answers at once or not at all
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.keep(client, server) {
			return
		}
		p.ended.Go(func() { p.carry(client, server) })
		p.ended.Go(func() { p.carry(server, client) })
	}
}

func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.closed {
			_ = c.Close()
			continue
		}
		p.open[c] = struct{}{}
	}
	return !p.closed
}

func (p *proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(p.open, c)
	}
}

// piece is bytes on their way.
type piece struct {
	due   time.Time
	bytes []byte
}

// onTheWay is how many pieces a connection may have on their way; requests and
// replies in turns have one.
const onTheWay = 1024

// carry takes bytes from one side to the other, one of which ends both.
func (p *proxy) carry(from, to net.Conn) {
	way := make(chan piece, onTheWay)
	p.ended.Go(func() {
		defer p.drop(from, to)
		for next := range way {
			time.Sleep(time.Until(next.due))
			if _, err := to.Write(next.bytes); err != nil {
				break
			}
		}
		_ = from.Close() // so that the loop below ends
		for range way {  // and is never held up
		}
	})
	defer close(way)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			way <- piece{due: time.Now().Add(p.oneWay), bytes: append([]byte(nil), buffer[:n]...)}
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) stop() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.open {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.ended.Wait()
}
