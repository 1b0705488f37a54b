package reserve

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/fault"
)

// Turns that are fixed may move, by a pause for example. The script that moves them says
// so on a channel, and every process in which calls wait listens. One that does not hear
// of it learns it from its next reply.

const (
	// quiet is after which time without news the connection is tried.
	quiet = 30 * time.Second

	// idle is how often it is looked whether calls wait still; if not, it is given up.
	idle = time.Second

	// deaf is the longest pause between two attempts to listen.
	deaf = time.Minute
)

// listen begins to listen to the news of all lines, if the process does not do so yet. A
// line is in use meanwhile.
func (c *core) listen() {
	if c.listening.Load() || c.listening.Swap(true) {
		return
	}
	c.busy.Go(func() {
		for failures := 0; c.isWaiting(); failures++ {
			began := time.Now()
			if err := c.subscribe(); err != nil && c.isWaiting() {
				c.missNews(err)
				if time.Since(began) > deaf {
					failures = 0
				}
				for rest := min(deaf, c.backoff(failures)<<min(failures, 8)); rest > 0 && c.isWaiting(); rest -= idle {
					c.restFor(context.Background(), min(rest, idle))
				}
			}
		}
		c.listening.Store(false)
		if c.isWaiting() { // since a moment ago
			c.listen()
		}
	})
}

// isWaiting reports whether calls wait here, in any line.
func (c *core) isWaiting() bool {
	return !c.isClosing() && slices.ContainsFunc(c.inUse(), (*line).isWaiting)
}

func (l *line) isWaiting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queues)+len(l.pinned)+len(l.guests) > 0
}

// subscribe takes in the news until the connection fails, and the error says so, or as
// long as calls wait.
func (c *core) subscribe() error {
	ctx := context.Background()
	news := c.client.Subscribe(ctx, c.channel())
	ended := make(chan struct{})
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		select {
		case <-c.closing:
		case <-ended:
		}
		_ = news.Close()
	}()
	defer func() { close(ended); <-closed }()
	tried, asked := time.Now(), false
	for {
		message, err := news.ReceiveTimeout(ctx, idle)
		switch {
		case timeout(err) && !c.isWaiting():
			return nil
		case timeout(err) && time.Since(tried) < quiet:
			continue
		case timeout(err) && !asked:
			if err = news.Ping(ctx); err == nil {
				tried, asked = time.Now(), true
				continue
			}
		}
		if err != nil {
			return err
		}
		tried, asked = time.Now(), false
		switch m := message.(type) {
		case *redis.Message:
			c.hear(m.Payload)
		case *redis.Subscription:
			c.lookUp(ctx) // there may have been news before
		}
	}
}

func timeout(err error) bool {
	var net interface{ Timeout() bool }
	return errors.As(err, &net) && net.Timeout()
}

// missNews notes that the process does not hear of turns that move.
func (c *core) missNews(err error) {
	if err = fault.Classify(err); errors.Is(err, ErrDenied) {
		c.unheard.Do(func() {
			c.cfg.Logger.Warn("fleetpace: the user may not subscribe, so that processes hear late of turns that"+
				" move; see lua.ACLNews", "limit", c.cfg.Name, "error", err)
		})
	}
}

// hear takes in what the scripts publish: what their replies begin with, and a key.
func (c *core) hear(text string) {
	words := strings.SplitN(text, " ", headSize+1)
	if len(words) != headSize+1 {
		return // not ours
	}
	values := make([]any, headSize)
	for i := range values {
		v, err := strconv.ParseInt(words[i], 10, 64)
		if err != nil {
			return
		}
		values[i] = v
	}
	a, err := decodeAnswers(values, 0)
	if err != nil {
		return
	}
	now := time.Now()
	a.at = c.clock.estimate(a.seen, time.Time{}, now)
	key, ok := strings.CutPrefix(words[headSize], c.keys("")[0])
	if !ok {
		return
	}
	if l := c.known(strings.TrimPrefix(key, ":")); l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.follow(a.geometry())
	}
}

// known is the line of a key, if the process remembers it.
func (c *core) known(key string) *line {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.lines[key]; l != nil {
		return l
	}
	l, _ := c.idle.Peek(key)
	return l
}

// lookUp asks where the lines are in which calls wait here.
func (c *core) lookUp(ctx context.Context) {
	for _, l := range c.inUse() {
		if !l.isWaiting() || c.gate.Open() {
			continue
		}
		g, err := c.whereabouts(ctx, l)
		if err != nil {
			continue // its next reply tells
		}
		l.mu.Lock()
		l.follow(g)
		l.mu.Unlock()
	}
}
