package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// place is a call that waits in Redis.
type place struct {
	number int64
	tags   []int64 // By limit.
	limit  int     // The index of the limit that it waits at.
	back   string  // The ask whose turns go back when it asks next. Empty: none.

	since    time.Time // When it came to wait.
	forecast time.Time // When it could have its turn …
	heard    time.Time // … as Redis said then.

	asking bool // A batch that is under way asks for it.
	leads  bool // It asks so that those behind it learn how far their turns are.
	far    bool // It asks though its turn seemed to be farther off than turns are given.
	close  bool // It has asked within the lead, and was given no turn: it asks once more at the last moment.
	stale  bool // Its forecast may be wrong: it asks at once.
}

// tag is that of the limit at which it waits: the queue there is in the order of these.
func (p *place) tag() int64 { return p.tags[p.limit] }

const (
	// At a limit that has turns every few milliseconds, calls that come while others wait here for
	// long ask together with those that come in the next moment. They have their turns after those,
	// so it delays nobody, and Redis is asked once for many.
	together = 10 * time.Millisecond
	long     = 10 * together

	// unheard is for how long a place that waits for a slot waits for news, and leastUnheard is the same for the
	// first ones of the process.
	unheard, leastUnheard = 8 * time.Second, 2 * time.Second

	// growth is how many places ask for each one that was given its turn sooner than it was told.
	growth = 2
)

// limitSet is some of the limits at which places wait, a bit each.
type limitSet uint64

func setOf(limit int) limitSet { return 1 << (uint(max(0, limit)) % 64) }

func (s limitSet) has(limit limitSet) bool { return s&limit != 0 }

// all reports whether the set has all the limits that a call of the line needs.
func (l *line) all(s limitSet) bool { return s == setOf(len(l.parts))-1 }

// needed are the places that calls of the line need.
func (l *line) needed() []*place { return l.places[:min(len(l.places), len(l.waiting))] }

// fresh is how many calls have neither turn nor place and are not being asked for.
func (l *line) fresh() int { return max(0, len(l.waiting)-len(l.places)-l.asked) }

// gather says until when calls that come now wait for others.
func (l *line) gather(now time.Time) {
	if n := len(l.places); n <= len(l.waiting) {
		first, last := l.places[0], l.places[n-1]
		dense := last.forecast.Sub(first.forecast) < time.Duration(n-1)*together
		if dense && last.forecast.Sub(now) > long && !l.atSlots(last.limit) {
			l.gathers = now.Add(together)
		}
	}
}

// take is what the line asks for now, at most so many calls: places whose forecasts are near, and
// behind them new calls.
func (l *line) take(now time.Time, t *times, most int) (places []*place, fresh int) {
	fresh = l.fresh()
	if len(l.places) > 0 {
		places = l.near(now, t, most)
	}
	fresh = max(0, min(most-len(places), fresh))
	l.asked += fresh
	return places, fresh
}

// near takes the places whose forecasts are near, at most so many: of each limit those that wait
// there, as a place at another limit says nothing of them. With them goes the first one of the limit
// that is too far off to be given a turn: what it hears moves the forecasts of those behind it.
func (l *line) near(now time.Time, t *times, most int) (near []*place) {
	var some, over limitSet
	ask := func(p *place) {
		p.asking, p.stale, p.far = true, false, p.forecast.Sub(now) > t.reach()
		near = append(near, p)
	}
	for _, p := range l.needed() {
		if len(near) == most || l.all(over) {
			break
		}
		at := setOf(p.limit)
		switch {
		case p.asking, over.has(at):
		case !l.asks(p, t).After(now), some.has(at) && !p.close && p.forecast.Sub(now) <= min(t.lead+together, t.reach()):
			ask(p)
			some |= at
		case !some.has(at):
			over |= at
		case l.atSlots(p.limit):
		case p.forecast.Sub(now) > t.reach():
			ask(p)
			p.leads = true
			over |= at
		}
	}
	return near
}

// asksAt is when the line asks; false: not as things stand. The zero time is now.
func (l *line) asksAt(t *times) (when time.Time, ok bool) {
	if l.fresh() > 0 {
		if l.gathers.IsZero() {
			return time.Time{}, true
		}
		when, ok = l.gathers, true
	}
	var seen limitSet
	for _, p := range l.needed() {
		if l.all(seen) {
			break
		}
		if at := setOf(p.limit); !p.asking && !seen.has(at) {
			seen |= at
			if moment := l.asks(p, t); !ok || moment.Before(when) {
				when, ok = moment, true
			}
		}
	}
	return when, ok
}

// sleeps reports whether the first place has not asked while two permits came, and will not for as long. The calls
// before it may be of a process that has just been killed, and then nobody else asks. A place that waits for a slot
// sleeps when twice the time to its forecast has passed, and as much time as it had waited when it asked last: its
// process may not have heard of a slot, and then its places leave the queue.
func (l *line) sleeps(now time.Time) bool {
	needed := l.needed()
	if len(needed) == 0 || needed[0].asking {
		return false
	}
	p := needed[0]
	if l.atSlots(p.limit) {
		return now.Sub(p.heard) >= max(leastUnheard, 2*p.forecast.Sub(p.heard), p.heard.Sub(p.since))
	}
	limit := l.parts[max(0, p.limit)].Limit
	if !limit.Paced() {
		return false
	}
	a, _ := limit.InForce()
	long := max(glance/2, 2*time.Duration(a)*time.Microsecond)
	return long <= 2*glance && now.Sub(p.heard) >= long && p.forecast.Sub(now) > long
}

// asks is when a place asks. A place whose forecast may be wrong asks at once: the zero time. A
// place that waits for a slot is told when there is room, and asks all the same from time to time.
func (l *line) asks(p *place, t *times) time.Time {
	switch {
	case p.stale:
		return time.Time{}
	case l.atSlots(p.limit):
		return p.heard.Add(unheard + time.Duration(p.number%32)*unheard/64)
	case p.close:
		return p.forecast.Add(-min(t.lead, t.near))
	default:
		return p.forecast.Add(-t.lead)
	}
}

// forecast is when a call could have its turn, and the limit that holds it back most; false: that is
// not known.
func (l *line) forecast(c *Call) (moment time.Time, limit int, known bool) {
	if i := slices.Index(l.waiting, c); i >= 0 && i < len(l.places) {
		return l.places[i].forecast, l.places[i].limit, true
	}
	return time.Time{}, 0, false
}

// tags are those of the first n places that wait at a limit, and are not asking.
func (l *line) tags(limit, n int) (tags []int64) {
	for _, p := range l.needed() {
		if len(tags) == n {
			break
		}
		if p.limit == limit && !p.asking {
			tags = append(tags, p.tag())
		}
	}
	return tags
}

// refresh lets the first n places ask at once that wait at a limit, as their forecasts may be wrong,
// or new calls for which there are none yet. Places that are asking ask again, as the answer may be
// older than what was heard since. A limit below 0 is any limit.
func (l *line) refresh(limit, n int) {
	l.touch()
	for _, p := range l.places {
		if limit >= 0 && p.limit != limit && !p.asking {
			continue
		}
		if !p.asking {
			if n--; n < 0 {
				return
			}
			p.close = false
		}
		p.stale = true
	}
	l.stale = min(l.asked, max(l.stale, n))
}

// scale lets all forecasts come so much nearer or go so much farther: the limit has another pace.
func (l *line) scale(now time.Time, factor float64) {
	for _, p := range l.places {
		p.forecast = now.Add(time.Duration(float64(p.forecast.Sub(now)) * factor))
	}
}

func (l *line) insert(p *place) {
	i, _ := slices.BinarySearchFunc(l.places, p, func(a, b *place) int {
		return cmp.Or(cmp.Compare(a.tag(), b.tag()), cmp.Compare(a.number, b.number))
	})
	l.places = slices.Insert(l.places, i, p)
}

// remove takes a place off, and reports whether it was there.
func (l *line) remove(p *place) bool {
	i := slices.Index(l.places, p)
	if i >= 0 {
		l.places = slices.Delete(l.places, i, i+1)
	}
	return i >= 0
}

// wakeLast wakes the last call that has a place by now: a call before it has left, or had a turn that
// another call had asked for.
func (l *line) wakeLast() {
	if n := len(l.needed()); n > 0 && l.waiting[n-1].Held {
		l.wake(l.waiting[n-1])
	}
}

// takeSpare takes off the last places that no call needs any more. Calls that are being asked for come behind all
// places, so nothing is taken off for them before they are answered.
func (l *line) takeSpare() (spare []*place) {
	for i := len(l.places) - 1; i >= 0 && len(l.places) > len(l.waiting); i-- {
		if p := l.places[i]; !p.asking {
			spare = append(spare, p)
			l.places = slices.Delete(l.places, i, i+1)
		}
	}
	return spare
}

// latest is the latest deadline of the last n new calls that are being asked for; zero: some have
// none, or nobody knows when their turns are.
func (l *line) latest(n int) (latest time.Time) {
	if l.slots != nil {
		return time.Time{}
	}
	end := min(len(l.places)+l.asked, len(l.waiting))
	for _, c := range l.waiting[max(0, end-n):end] {
		if c.Deadline.IsZero() {
			return time.Time{}
		}
		latest = later(latest, c.Deadline)
	}
	return latest
}

// takeCalls takes in what a line asks for, and reports whether there is more.
func (e *Engine) takeCalls(b *Batch, l *line, t *times, now time.Time, work *int) bool {
	queues, perCall := b.workOfLimits(l.parts), workOfCall
	if len(l.parts) > 1 {
		queues, perCall = 0, workOfJoint
	}
	most := max(1, (mostWork-*work-queues)/perCall)
	light := len(l.places) == 0 && len(l.parts) == 1 && !l.need.Settles && l.need.Limit.Calm()
	if light {
		most = mostCalls
	}
	places, fresh := l.take(now, t, most)
	for _, p := range places {
		b.add(l, wire.Item{Count: 1, Number: p.number}, p)
	}
	if fresh > 0 {
		item := wire.Item{Count: fresh, Number: e.number + 1}
		e.number += int64(fresh)
		last := l.waiting[min(len(l.places)+l.asked, len(l.waiting))-1]
		if l.need.ID == "" && !l.need.Now && !last.Deadline.IsZero() {
			if latest := l.latest(fresh); !latest.IsZero() {
				item.Latest = latest.Add(-min(slop, max(0, latest.Sub(now))/8)) // a forecast or a timer may be a little off
			}
		}
		b.add(l, item, nil)
	}
	if len(places)+fresh > 0 && l.late > 0 { // else the reply would come too late again
		b.late, l.late = max(b.late, l.late), 0
	}
	if light || l.need.Limit.Lease > 0 {
		e.takeAhead(b, l, now)
	}
	calls := fresh + len(places)
	b.calls += calls
	if light {
		*work += workOfLimit
	} else {
		*work += queues + calls*perCall
	}
	return calls == most
}
