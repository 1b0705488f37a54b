package engine

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// place is the entry of a waiting call in Redis.
type place struct {
	number int64
	tags   []int64 // The tags of its call, by limit.
	limit  int     // The index of the limit at which it waits.
	back   string  // The ask whose turns Redis takes back when the place asks next. Empty: there is no such ask.

	since    time.Time // When it began to wait.
	forecast time.Time // When its turn is expected, …
	heard    time.Time // … by an answer that came at this moment.

	asking bool // A batch that is under way asks for it.
	leads  bool // It asks so that the places behind it learn how far away their turns are.
	far    bool // It asks although its turn seemed to be too far away to be given.
	close  bool // It has asked within the lead, and got no turn: it asks once more at the last moment.
	stale  bool // Its forecast may be wrong: it asks at once.
	called bool // Redis has called it, as it is the first one at its limit: see line.isBehind.

	// An asking place does not stay stale if its answer is newer than the news, or sends it to another limit than
	// the limit of the news.
	news int64 // When Redis published the news, by its clock.
	at   int   // The index of their limit. Below 0: all limits.
}

// tag returns the tag at the limit at which the place waits. The queue there is in the order of these tags.
func (p *place) tag() int64 { return p.tags[p.limit] }

const (
	// At a limit that has turns every few milliseconds, some calls come while others have to wait for long.
	// They ask together with the calls of the next moment. Their turns come after the turns of the others, so
	// this delays no call, and Redis is asked once for many.
	together = 10 * time.Millisecond
	long     = 10 * together

	// unheard is about how long a place that waits for a slot waits for news before it asks. leastUnheard is
	// the least time after which such a place sleeps: see line.sleeps.
	unheard, leastUnheard = 8 * time.Second, 2 * time.Second

	// sparse is how far apart the turns of a place are at least, where it may ask early to share a batch. Where
	// turns are closer, calls of other processes come before it, and may not have asked yet.
	sparse = 100 * time.Millisecond

	// growth is how many places ask at once for each place that got its turn sooner than forecast.
	growth = 2
)

// limitSet is a set of the limits at which places wait, with a bit for each.
type limitSet uint64

func setOf(limit int) limitSet { return 1 << (uint(max(0, limit)) % 64) }

func (s limitSet) has(limit limitSet) bool { return s&limit != 0 }

// all reports whether the set has all the limits that a call of the line needs.
func (l *line) all(s limitSet) bool { return s == setOf(len(l.parts))-1 }

// needed returns the places that calls of the line need.
func (l *line) needed() []*place { return l.places[:min(len(l.places), len(l.waiting))] }

// fresh is the number of calls that have no turn and no place, and for which no batch asks.
func (l *line) fresh() int { return max(0, len(l.waiting)-len(l.places)-l.asked) }

// gather decides until when calls that come now wait for others, to ask together.
func (l *line) gather(now time.Time) {
	if n := len(l.places); n <= len(l.waiting) {
		first, last := l.places[0], l.places[n-1]
		dense := last.forecast.Sub(first.forecast) < time.Duration(n-1)*together
		if dense && last.forecast.Sub(now) > long && !l.atSlots(last.limit) {
			l.gathers = now.Add(together)
		}
	}
}

// take returns what the line asks for now: places whose forecasts are near, and behind them new calls. There
// are no more of both than most.
func (l *line) take(now time.Time, t *times, most int) (places []*place, fresh int) {
	fresh = l.fresh()
	if len(l.places) > 0 {
		places = l.near(now, t, most)
	}
	fresh = max(0, min(most-len(places), fresh))
	l.asked += fresh
	return places, fresh
}

// near returns places whose forecasts are near, no more than most. It takes each limit by itself, as a place at
// another limit says nothing about it. If a place at the limit asks, the first place that is too far away to be
// given a turn asks, too. The answer moves the forecasts of the places behind it. While places bring their tags, each stale
// place asks, whatever the forecasts of the places before it are.
func (l *line) near(now time.Time, t *times, most int) (near []*place) {
	var some, over limitSet
	ask := func(p *place) {
		p.asking, p.stale, p.called, p.news, p.far = true, false, false, 0, p.forecast.Sub(now) > t.reach()
		near = append(near, p)
	}
	for _, p := range l.needed() {
		if len(near) == most || l.all(over) && !l.brings {
			break
		}
		at := setOf(p.limit)
		switch {
		case p.asking, over.has(at) && !(l.brings && p.stale):
		case !l.asks(p, t).After(now), l.mayShare(p, now, t), some.has(at) && !p.close && (l.slots == nil || l.atSlots(p.limit)) && p.forecast.Sub(now) <= min(t.lead+together, t.reach()):
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
	l.brings = l.brings && slices.ContainsFunc(l.needed(), func(p *place) bool { return p.stale })
	return near
}

// asksAt returns when the line asks. The zero time means now. It reports false if there is no such moment yet.
func (l *line) asksAt(t *times) (when time.Time, ok bool) {
	if l.fresh() > 0 {
		if l.gathers.IsZero() {
			return time.Time{}, true
		}
		when, ok = l.gathers, true
	}
	var seen limitSet
	for _, p := range l.needed() {
		if l.all(seen) && !l.brings {
			break
		}
		if at := setOf(p.limit); !p.asking && (!seen.has(at) || l.brings && p.stale) {
			seen |= at
			if moment := l.asks(p, t); !ok || moment.Before(when) {
				when, ok = moment, true
			}
		}
	}
	return when, ok
}

// sleeps reports whether the first place has not asked while two permits came, and will not ask for as long.
// The calls before it may belong to a process that was just killed: then nobody else asks. A place that waits
// for a slot sleeps when three times have passed since it last asked. They are leastUnheard, twice the time to
// its forecast, and the time that it had waited before. Its process may have missed the news of a slot, and
// then its places leave the queue.
func (l *line) sleeps(p *place, now time.Time) bool {
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

// asks returns when a place asks. A place whose forecast may be wrong asks at once: the zero time. A place that
// waits for a slot asks when news says that one is free, and from time to time all the same. A call that needs a
// slot gets its turn at the last moment only, so it does not ask before.
func (l *line) asks(p *place, t *times) time.Time {
	switch {
	case p.stale, p.called && !l.isBehind(p):
		return time.Time{}
	case l.atSlots(p.limit):
		return p.heard.Add(unheard + time.Duration(p.number%32)*unheard/64)
	case p.close, l.slots != nil:
		at := p.forecast.Add(-min(t.lead, t.near))
		for _, before := range [...]time.Duration{t.ahead, t.trip, 0} { // It asked too early, or its turn came no nearer. It asks later.
			if !p.heard.Before(at) {
				at = p.forecast.Add(-min(t.lead, before))
			}
		}
		return at
	default:
		return p.forecast.Add(-t.lead)
	}
}

// mayShare reports whether a place may ask now if a batch goes to Redis anyway, although it is not due yet.
func (l *line) mayShare(p *place, now time.Time, t *times) bool {
	limit := l.parts[max(0, p.limit)].Limit
	a, _ := limit.InForce()
	return len(l.parts) == 1 && !p.close && !p.asking && limit.Paced() && a*float64(l.parts[max(0, p.limit)].Cost) >= float64(sparse.Microseconds()) &&
		p.forecast.Sub(now) <= t.lead+t.share
}

// forecast returns when a call is expected to get its turn, and the index of the limit that delays it most. It
// reports false if that is not known.
func (l *line) forecast(c *Call) (moment time.Time, limit int, known bool) {
	if i := slices.Index(l.waiting, c); i >= 0 && i < len(l.places) {
		return l.places[i].forecast, l.places[i].limit, true
	}
	return time.Time{}, 0, false
}

// tags returns the tags of the first n places that wait at a limit, and are not asking.
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

// refresh makes the first n places at a limit ask at once, because their forecasts may be wrong. Where there
// are fewer, it does so for new calls that have no forecast yet. Places that are asking ask again, because the
// answer may be older than the news. A limit below 0 stands for all limits.
func (l *line) refresh(limit, n int) {
	l.refreshes(limit, n, len(l.places), math.MaxInt64)
}

// refreshes does what refresh does because of news, which Redis published at a time of its clock. Places whose
// answers are newer than that do not ask again, and no more than again of the others do.
func (l *line) refreshes(limit, n, again int, news int64) {
	l.touch()
	called := l.slots != nil && limit >= 0 && !l.slots[limit]
	for _, p := range l.places {
		switch {
		case p.asking:
			again--
			if again >= 0 {
				if p.stale && p.news > 0 && p.at != limit { // there were news of another limit
					p.at = -1
				} else {
					p.at = limit
				}
				p.stale, p.news = true, max(p.news, news)
			}
			continue
		case limit >= 0 && p.limit != limit:
			continue
		}
		if n--; n < 0 {
			return
		}
		if p.called = called && l.isBehind(p); !p.called {
			p.close, p.stale = false, true
		}
	}
	l.stale, l.news = min(l.asked, max(l.stale, n)), max(l.news, news)
}

// isBehind reports whether an earlier place of the line waits for a slot, or may do so soon. If Redis calls a place behind
// it, because that is the first one at a rate, no slot is free. The place would wait for a slot, too, and Redis would call
// the next one. So all places would leave the rate one after the other, and come back when a slot is free.
func (l *line) isBehind(p *place) bool {
	return slices.ContainsFunc(l.places, func(o *place) bool { return o.number < p.number && (o.asking || l.atSlots(o.limit)) })
}

// scale multiplies the times to all forecasts by a factor, because the limit has another pace.
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

// remove removes a place, and reports whether the line had it.
func (l *line) remove(p *place) bool {
	i := slices.Index(l.places, p)
	if i >= 0 {
		l.places = slices.Delete(l.places, i, i+1)
	}
	return i >= 0
}

// wakeLast wakes the last call that has a place now: a call before it has left, or has got a turn for which
// another call had asked.
func (l *line) wakeLast() {
	if n := len(l.needed()); n > 0 && l.waiting[n-1].Held {
		l.wake(l.waiting[n-1])
	}
}

// takeSpare removes and returns the last places that no call needs any more. A call that gives up returns the last
// place of its line, and its own place passes to the next call. New calls for which a batch asks come behind all
// places, so no place is removed for them before they are answered.
func (l *line) takeSpare() (spare []*place) {
	for i := len(l.places) - 1; i >= 0 && len(l.places) > len(l.waiting); i-- {
		if l.places[i].asking { // it leaves after its answer: the places before it are older
			break
		}
		spare = append(spare, l.places[i])
		l.places = slices.Delete(l.places, i, i+1)
	}
	return spare
}

// latest returns the latest deadline of the last n new calls for which a batch asks. Zero: some have no
// deadline, or nobody knows when their turns are.
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

// takeCalls adds what a line asks for to a batch, and reports whether the line has more to ask for.
func (e *Engine) takeCalls(b *Batch, l *line, t *times, now time.Time, work *int) bool {
	light := len(l.places) == 0 && len(l.parts) == 1 && !l.need.Settles && l.need.Limit.Calm()
	most, queues, perCall := mostCalls, 0, workOfCall
	if !light {
		if len(l.parts) > 1 {
			perCall = workOfJoint
		} else {
			queues = b.workOfLimits(l.parts)
		}
		most = max(1, (mostWork-*work-queues)/perCall)
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
	if len(places)+fresh > 0 && l.leastWay > 0 { // otherwise the reply would come too late again
		b.leastWay, l.leastWay = max(b.leastWay, l.leastWay), 0
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
