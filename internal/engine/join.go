package engine

import (
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// This file has what happens to one call, from when it joins until it is over.

// Join makes a call wait for its turn.
func (e *Engine) Join(now time.Time, c *Call) {
	if e.closed || c.Need.ended() {
		e.refuse(c, e.cfg.Errors.Closed)
		return
	}
	if len(e.missed) > 0 && !c.Held && e.turnAway(c, now) || len(e.refusals.full) > 0 && e.refuseFull(c, now) {
		return
	}
	if e.strange {
		if err := e.otherKind(&c.Need); err != nil { // the name is in use all the same: so the process learns when that ends
			c.Need.each(func(p Part) { e.useLimit(p.Limit, now) })
			e.refuse(c, err)
			return
		}
	}
	if len(e.leases) > 0 && e.lend(c, now) {
		return
	}
	l := e.last
	if l == nil || !l.is(&c.Need) {
		l = e.lineOf(&c.Need)
	}
	l.join(c, now)
}

// refuse fails a call that is in no line.
func (e *Engine) refuse(c *Call, err error) {
	c.err = err
	c.end(Failed)
	e.ready.Wake = append(e.ready.Wake, c)
}

// Use makes a call use its turn if it is due within early. Otherwise it returns how long it is until then, or
// less than 0 if the call has no turn. An expired turn is not used: the call waits for another one.
func (e *Engine) Use(now time.Time, c *Call, early time.Duration) (left time.Duration, used bool) {
	if c.state != Given {
		return -1, false
	}
	t := c.turn
	if left = t.Due.Sub(now) - early; left > 0 {
		return left, false
	}
	c.line.use(c, later(now, t.Due))
	if now.After(t.Until) {
		e.Oversleep(now, c)
		return -1, false
	}
	e.holds(c)
	return 0, true
}

// Look is Use for a call that a caller waits for. It returns 0 if the call uses its turn, and an error if the
// call is over without a turn. A booked call joins again, because it asked before its caller waited. A call whose
// turn has expired before its caller could look waits again, too.
func (e *Engine) Look(now time.Time, c *Call, early time.Duration) (left time.Duration, err error) {
	if c.state == Used || c.state == Expired {
		e.Oversleep(now, c)
	}
	left, _ = e.Use(now, c, early)
	switch c.state {
	case Failed:
		err, c.err = c.err, nil
	case Gone:
		err = e.cfg.Errors.Cancelled
	case Booked:
		err = e.Resume(now, c)
	}
	return left, err
}

// calm reports whether nothing is to be done since Ready was last called.
func (e *Engine) calm() bool {
	return len(e.touched)+len(e.ready.Wake)+len(e.ready.Tell)+len(e.ready.Send)+len(e.outbox) == 0
}

// Oversleep makes a call wait again, first in its line, because its turn had expired when the call came to use
// it.
func (e *Engine) Oversleep(now time.Time, c *Call) {
	t := c.turn
	if e.closed || c.Need.ended() {
		e.refuse(c, e.cfg.Errors.Closed)
		return
	}
	e.tell(Event{What: Lapsed, N: 1, Took: now.Sub(t.Until), Need: &c.Need})
	c.line = e.lineOf(&c.Need)
	c.line.again(c, t, now)
	c.line.allow(t.Way + slop)
}

// allow makes the next ask of a line allow for a way as long as that of a reply. Its turn is that much later. An ask can
// allow for a second: if the reply took far longer, the process was suspended, and the next one will not.
func (l *line) allow(way time.Duration) {
	if way <= 2*farthest {
		l.leastWay = max(l.leastWay, way)
	}
}

// Leave removes a call that gives up. It reports false if the call is over.
func (e *Engine) Leave(now time.Time, c *Call) bool {
	if c.line == nil || !c.line.leave(c, now) {
		return false
	}
	e.forgetMissed()
	return true
}

// End ends the calls that need a limit of a name, and lets no such call join any more. Other calls go on.
func (e *Engine) End(now time.Time, name *wire.Name) {
	name.Ended.Store(true)
	for _, l := range e.inUse {
		if l.need.ended() {
			l.failAll(e.cfg.Errors.Closed)
		}
	}
	if u := e.names[name]; u != nil {
		u.used = time.Time{}
		e.hurry(now)
	}
}

// Close ends all waits, and gives back the places, turns and slots that nobody needs.
func (e *Engine) Close(now time.Time) {
	if e.closed {
		return
	}
	e.closed = true
	e.tidyLeases(now, true)
	for _, c := range e.holding(func(*slots) bool { return true }) {
		e.release(c, now)
	}
	for _, l := range e.inUse {
		l.failAll(e.cfg.Errors.Closed)
	}
	e.takeKept(nil, now)
	for _, a := range append(alarms(nil), e.alarms...) {
		switch b, waits := a.of.(*Batch); {
		case waits:
			e.alarms.clear(a)
			e.fail(b, e.cfg.Errors.Closed, now)
		case a == &e.heart.alarm, a == &e.heart.replan, a == &e.news.glance, a == &e.news.look:
			e.alarms.clear(a)
		}
	}
}

// Take uses a turn that has come although no caller waits for it. It reports false if there is no such turn.
func (e *Engine) Take(now time.Time, c *Call) bool {
	switch {
	case c.state == Given && !c.turn.Due.After(now):
		c.line.use(c, now)
	case c.state == Expired:
		c.uses(now)
		c.state = Used
	default:
		return false
	}
	e.holds(c)
	return true
}

// Resume makes a call wait in this process, even a call that is over. It returns the error of a failed call
// once.
func (e *Engine) Resume(now time.Time, c *Call) (err error) {
	if c.Need.Patience = forever; c.line != nil {
		c.line.need.Patience = forever
	}
	switch {
	case c.state == Gone:
		return e.cfg.Errors.Cancelled
	case e.closed || c.Need.ended():
		return e.cfg.Errors.Closed
	case !c.over.Load():
		return nil
	case c.err != nil:
		err, c.err = c.err, nil
		return err
	}
	if err := e.otherKind(&c.Need); err != nil {
		return err
	}
	if t := c.turn; t != nil { // it expired long ago, or was used too late
		c.line = e.lineOf(&c.Need)
		c.line.again(c, t, now)
		return nil
	}
	c.Deadline = time.Time{}
	c.waits()
	l := e.lineOf(&c.Need)
	l.need.Patience = forever
	l.join(c, now)
	return nil
}

// Late makes a call ask again, first in its line, because its turn reached the caller too late. way is how long
// turns take from here to the caller: the next ask allows for it. The turn is returned only if unused says that
// nobody has used it.
func (e *Engine) Late(now time.Time, c *Call, way time.Duration, unused bool) error {
	if e.closed || c.Need.ended() {
		return e.cfg.Errors.Closed
	}
	if c.state != Used {
		return nil
	}
	t := *c.turn
	t.Alone = t.Alone && unused
	c.line = e.lineOf(&c.Need)
	if t.Tags == nil && t.Process != "" { // like a call that had to wait, it keeps its place
		t.Tags = c.line.tagsOf(&t)
	}
	e.tell(Event{What: Lapsed, N: 1, Took: now.Sub(t.Until), Need: &c.Need})
	c.line.again(c, &t, now)
	c.due = now
	if way > 0 {
		c.line.allow(t.Way + way)
	}
	return nil
}

// Cancel ends a call. Its place leaves Redis, or its turn is returned where that is possible. A caller that
// waits for the call gets an error. Cancel reports false if the turn was used, or the call had ended before.
func (e *Engine) Cancel(now time.Time, c *Call) bool {
	switch c.state {
	case Used, Gone, Back:
		return false
	}
	if c.line != nil {
		c.line.books, c.line.unsure = false, false
	}
	if !e.Leave(now, c) {
		c.end(Gone)
	}
	e.ready.Wake = append(e.ready.Wake, c)
	return true
}

// Book ends a call in this process. It is to come back under its ID, in the order that it had. unsure says that
// it may not come back: then no call waits for it. A turn that was used, or has expired, counts as unused.
func (e *Engine) Book(now time.Time, c *Call, unsure bool) {
	switch {
	case c.state == Booked:
	case c.turn == nil || c.state == Given:
		c.line.books, c.line.unsure = true, unsure
		e.Leave(now, c)
	case !e.closed:
		c.line = e.lineOf(&c.Need)
		c.line.touch()
		c.line.books, c.line.unsure = true, unsure
		c.line.unused = append(c.line.unused, c.turn)
		c.turn = nil
	}
	c.state = Back
}
