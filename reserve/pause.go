package reserve

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/lua"
)

const maxReason = 256

// Pause lets no call of the whole fleet have its turn for d, because the API asked for
// it: with a Retry-After header, say. Turns follow in the same order, and at the pace of
// the rate from the end of the pause on: the bucket is empty then. Of several pauses the
// one that ends last counts; they do not add up. [Limiter.Resume] ends it early.
//
// Calls that wait, here and in other processes, hear of it at once, also those whose
// turns were fixed; tasks that were put back do when they come again. A process that can
// not hear it (its connection just broke, or see [lua.ACLNews]) makes calls whose turns
// were fixed already, which is up to Config.InlineBound ahead; under [Strict] none, as
// then no turn is fixed before it has come. Permits that a process leased are given up.
//
// The reason is for people: [Limiter.State] and the log show it, up to 256 bytes. A d
// of 0 or less changes nothing, and one above Config.MaxPause counts as that. Pause never
// waits for the pause to end. After an error with [ErrUnavailable] this process pauses,
// and the others may not know. Other errors: [ErrInvalid], [ErrCorrupt], [ErrClosed].
func (l *Limiter) Pause(ctx context.Context, d time.Duration, reason string) error {
	return l.fail("pause", l.pause(ctx, d, reason))
}

// PauseUntil is [Limiter.Pause] until a moment on the local clock, such as an API tells
// it in a header. One that is past changes nothing.
func (l *Limiter) PauseUntil(ctx context.Context, until time.Time, reason string) error {
	return l.Pause(ctx, time.Until(until), reason)
}

// Resume ends a pause. Turns move earlier by what was still to go of it, in order.
// Without a pause it changes nothing. Errors are those of [Limiter.Pause].
func (l *Limiter) Resume(ctx context.Context) error {
	return l.fail("resume", l.resume(ctx))
}

func (l *Limiter) pause(ctx context.Context, d time.Duration, reason string) error {
	reason = shortened(reason)
	c := l.core
	if most := c.cfg.MaxPause; most > 0 && d > most {
		c.cfg.Logger.Warn("fleetpace: a pause is cut to Config.MaxPause",
			"limit", l.String(), "pause", d, "max", most, "reason", reason)
		d = most
	}
	line, err := l.enter(ctx, 1)
	if err != nil {
		return err
	}
	defer c.leave(line)
	if d <= 0 {
		return nil
	}
	until := time.Now().Add(d)
	err = line.move(ctx, func(who caller) (answers, error) {
		args := append(c.args(who, 3), max(0, time.Until(until).Microseconds()), reason, c.channel())
		return c.ask(ctx, lua.Pause, line.keys, args, 0)
	})
	if fault.Away(err) {
		line.mu.Lock()
		line.keepStill(until)
		line.mu.Unlock()
	}
	if err == nil {
		c.cfg.Logger.Info("fleetpace: paused", "limit", l.String(), "pause", d, "reason", reason)
	}
	return err
}

// shortened is a text that the script takes: what an API says in a header may be long.
func shortened(text string) string {
	text = strings.ToValidUTF8(text, "?")
	for len(text) > maxReason {
		_, size := utf8.DecodeLastRuneInString(text[:maxReason+1])
		text = text[:maxReason+1-size]
	}
	return text
}

func (l *Limiter) resume(ctx context.Context) error {
	line, err := l.enter(ctx, 1)
	if err != nil {
		return err
	}
	defer l.core.leave(line)
	return line.move(ctx, func(who caller) (answers, error) {
		args := append(l.core.args(who, 1), l.core.channel())
		return l.core.ask(ctx, lua.Resume, line.keys, args, 0)
	})
}

// move makes a call that moves the line.
func (l *line) move(ctx context.Context, call func(caller) (answers, error)) error {
	var reply answers
	err := l.do(ctx, func(who caller) (err error) {
		who.member = "" // who tells this need not make calls
		reply, err = call(who)
		return err
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.follow(reply.geometry())
	l.rides.plain = l.rides.plain && reply.plain
	l.serve()
	return nil
}

// keepStill lets no call of this process through before a moment, while Redis is away.
// The line must be locked.
func (l *line) keepStill(until time.Time) {
	if until.After(l.where.until) {
		l.where.until = until
	}
	if a := l.memory.absent; a != nil && a.local != nil {
		a.local.NotBefore(until)
	}
}
