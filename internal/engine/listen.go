package engine

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/fault"
)

// This file listens to the channel of the news, and hands each message to [Engine.News].

const (
	quiet   = time.Second // how often a silent connection is tried, and the process checks whether it still needs news
	silence = 3 * quiet   // after this silence the connection is given up
	mostOff = time.Minute // the longest pause between two attempts to listen where Redis forbids it …
	leftOff = 3           // … and after how many failures the pause grows no more, where Redis does not answer
)

// listen receives news for as long as the engine wants them.
func (p *Process) listen() {
	for failures := 0; ; failures++ {
		heard, err := p.subscribe()
		if heard {
			failures = 0
		}
		if err != nil {
			p.step(func(e *Engine, now time.Time) { e.Unsubscribed(now) })
		}
		why, pause := fault.Classify(err), p.engine.backoff(min(failures, leftOff))
		if errors.Is(why, fault.ErrDenied) || !fault.Away(why) {
			pause = min(mostOff, p.engine.backoff(failures)<<min(failures, 8))
		}
		if p.ends() || err != nil && !p.rest(context.Background(), pause) {
			return
		}
	}
}

// ends reports whether the process stops listening, because it wants no news any more, or is closed.
func (p *Process) ends() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listening = p.wanted && p.life.Err() == nil
	return !p.listening
}

// subscribe receives news until the connection fails, or for as long as the engine wants news. It reports
// whether it has received anything.
func (p *Process) subscribe() (heardSome bool, err error) {
	ctx := p.life
	news := p.client.Subscribe(ctx, p.channel)
	// news.Close waits for a connection that is being made. In simulated time no time passes for a goroutine
	// that waits for a lock. So the end of the context closes only a connection that has been made.
	stop := func() bool { return true }
	defer func() {
		if stop() {
			_ = news.Close()
		}
	}()
	heard := time.Now()
	for {
		message, err := news.ReceiveTimeout(ctx, quiet)
		if isTimeout(err) {
			if !p.wantsNews() {
				return heardSome, nil
			}
			if time.Since(heard) < silence {
				if err = news.Ping(ctx); err == nil {
					continue
				}
			}
		}
		if err != nil {
			return heardSome, err
		}
		heard, heardSome = time.Now(), true
		p.step(func(e *Engine, now time.Time) {
			switch m := message.(type) {
			case *redis.Message:
				e.News(now, m.Payload)
			case *redis.Subscription:
				e.Subscribed(now)
			default:
				e.Alive(now)
			}
		})
		if _, subscribed := message.(*redis.Subscription); subscribed {
			stop = context.AfterFunc(ctx, func() { _ = news.Close() })
		}
	}
}

func (p *Process) wantsNews() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wanted
}

func isTimeout(err error) bool {
	var net interface{ Timeout() bool }
	return errors.As(err, &net) && net.Timeout()
}
