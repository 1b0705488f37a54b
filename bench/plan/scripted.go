package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// scripted is a process that spends script calls as the formula says, and does nothing
// else: one call in the air per name, quick where that will do. It knows stored
// permits only; waits are not waited for.
type scripted struct {
	names []*scriptedName
}

type scriptedName struct {
	client redis.Scripter
	pace   pace
	prefix string
	name   string
	member string

	mu     sync.Mutex
	lines  map[int]*line
	asks   map[int]*scriptedAsk // by key: what waits for the next trip
	flying bool
	flight sync.WaitGroup
}

// scriptedAsk is calls for one limit.
type scriptedAsk struct {
	line  *line
	calls []chan error
}

func (a *scriptedAsk) answer(err error) {
	for _, done := range a.calls {
		done <- err
	}
}

func newScripted(client redis.Scripter, s scenario, prefix string, names []string) *scripted {
	all := &scripted{}
	process := fmt.Sprintf("%016x/1", rand.Uint64())
	for _, name := range names {
		all.names = append(all.names, &scriptedName{
			client: client, pace: s.pace(), prefix: prefix, name: name, member: process,
			lines: make(map[int]*line), asks: make(map[int]*scriptedAsk),
		})
	}
	return all
}

// Close waits for the trips that are in the air; nobody may call any more.
func (s *scripted) Close() error {
	for _, n := range s.names {
		n.flight.Wait()
	}
	return nil
}

// Wait returns when the call has a permit.
func (s *scripted) Wait(ctx context.Context, name, key int) error {
	n, done := s.names[name], make(chan error, 1)
	n.mu.Lock()
	if n.lines[key] == nil {
		n.lines[key] = newLine(n.prefix, n.name, strconv.Itoa(key), n.member)
	}
	if n.asks[key] == nil {
		n.asks[key] = &scriptedAsk{line: n.lines[key]}
	}
	n.asks[key].calls = append(n.asks[key].calls, done)
	if !n.flying {
		n.flying = true
		n.flight.Go(func() { n.fly(context.WithoutCancel(ctx)) })
	}
	n.mu.Unlock()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fly makes script calls until nobody asks.
func (n *scriptedName) fly(ctx context.Context) {
	for {
		n.mu.Lock()
		if len(n.asks) == 0 {
			n.flying = false
			n.mu.Unlock()
			return
		}
		var plain, others []*scriptedAsk
		for key, a := range n.asks {
			if len(plain) == mostLimits {
				break
			}
			if time.Since(a.line.took) < refreshSeconds*time.Second {
				plain = append(plain, a)
			} else {
				others = append(others, a)
			}
			delete(n.asks, key)
		}
		n.mu.Unlock()
		n.trip(ctx, plain, others)
	}
}

func (n *scriptedName) trip(ctx context.Context, plain, others []*scriptedAsk) {
	if len(plain) > 0 {
		lines, permits := make([]*line, len(plain)), make([]int, len(plain))
		for i, a := range plain {
			lines[i], permits[i] = a.line, len(a.calls)
		}
		gave, err := quick(ctx, n.client, n.pace, time.Second, lines, permits)
		for i, a := range plain {
			if err == nil && !gave[i] {
				others = append(others, a)
			} else {
				a.answer(err)
			}
		}
	}
	for _, a := range others {
		var err error
		for from := 0; err == nil && from < len(a.calls); from += mostRequests {
			_, err = a.line.take(ctx, n.client, n.pace, far, min(mostRequests, len(a.calls)-from), a.line.id)
		}
		a.answer(err)
	}
}

var errTooMuch = errors.New("-driver scripts: it knows no leases and no numbers that wait, so -lease and -waiting must be 0")
