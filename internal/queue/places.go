package queue

import (
	"cmp"
	"slices"
	"time"
)

// Ask is what a queue asks for: so many new calls, and places that it has.
type Ask struct {
	New    int
	Places []*Place
}

// Times say how long before its turn a place is asked for.
type Times struct {
	Lead    time.Duration // usually
	Near    time.Duration // where a turn is given at the last moment only
	Horizon time.Duration // how far ahead turns are given
}

// Next is what the queue asks for now, at most so many calls: places whose forecasts are
// near, and behind them those that have none.
func (q *Queue) Next(now time.Time, t Times, most int) (ask Ask) {
	fresh := q.fresh()
	ask.Places = q.near(now, t, most)
	ask.New = max(0, min(most-len(ask.Places), fresh))
	q.asked += ask.New
	return ask
}

// near takes the places whose forecasts are near, at most so many: of each limit those that wait
// there, as one at another limit says nothing of them. With them goes the first one of the limit that
// is too far off to be given a turn: what it hears moves the forecasts of those behind it.
func (q *Queue) near(now time.Time, t Times, most int) (near []*Place) {
	var taken, over lines
	for _, p := range q.places[:min(len(q.places), len(q.waiting))] {
		if len(near) == most || over.all(q.Limits) {
			break
		}
		at := lineOf(p.Slowest)
		switch {
		case p.asked, over.has(at):
		case !q.when(p, t).After(now), taken.has(at) && q.nearly(p, now, t):
			near = append(near, p.take(now, t))
			taken |= at
		case !taken.has(at):
			over |= at
		case q.atSlot(p.Slowest):
		case p.forecast.Sub(now) > t.Horizon:
			near = append(near, p.take(now, t))
			p.tells = true
			over |= at
		}
	}
	return near
}

// take notes that a place is asked for.
func (p *Place) take(now time.Time, t Times) *Place {
	p.asked, p.soon, p.far = true, false, p.forecast.Sub(now) > t.Horizon
	return p
}

// lines are some of the limits at which places wait, a bit each.
type lines uint64

func lineOf(limit int) lines { return 1 << (uint(max(0, limit)) % 64) }

func (l lines) has(line lines) bool { return l&line != 0 }

// all reports whether they are those of all the limits that a call needs.
func (l lines) all(limits int) bool { return l == lineOf(max(1, limits))-1 }

// When is when the queue has something to ask for; false: not as things stand.
func (q *Queue) When(t Times) (when time.Time, ok bool) {
	if q.fresh() > 0 {
		if q.gathers.IsZero() {
			return time.Time{}, true
		}
		when, ok = q.gathers, true
	}
	var over lines
	for _, p := range q.places[:min(len(q.places), len(q.waiting))] {
		if over.all(q.Limits) {
			break
		}
		if at := lineOf(p.Slowest); !p.asked && !over.has(at) {
			over |= at
			if moment := q.when(p, t); !ok || moment.Before(when) {
				when, ok = moment, true
			}
		}
	}
	return when, ok
}

// fresh is how many calls have neither turn nor place and were not asked for.
func (q *Queue) fresh() int { return max(0, len(q.waiting)-len(q.places)-q.asked) }

// At a limit that has turns every few milliseconds, calls that come while others wait here for
// long ask together with those that come in the next moment: they have their turns after those, so
// it holds up nobody, and Redis is asked once for many.
const (
	together = 10 * time.Millisecond
	long     = 10 * together
)

// nearly reports whether a place may ask a moment before its time, as others do.
func (q *Queue) nearly(p *Place, now time.Time, t Times) bool {
	return !p.early && p.forecast.Sub(now) <= min(t.Lead+together, t.Horizon)
}

// gather says until when calls that come now wait for others.
func (q *Queue) gather(now time.Time) {
	q.gathers = time.Time{}
	if n := len(q.places); n > 0 && n <= len(q.waiting) {
		first, last := q.places[0], q.places[n-1]
		dense := last.forecast.Sub(first.forecast) < time.Duration(n-1)*together
		if dense && last.forecast.Sub(now) > long && !q.atSlot(last.Slowest) {
			q.gathers = now.Add(together)
		}
	}
}

// Gathers reports whether calls that were not asked for wait for others.
func (q *Queue) Gathers() bool { return q.fresh() > 0 && !q.gathers.IsZero() }

// when is when a place asks. One that came too early for some of its limits asks again
// shortly before its turn. One whose forecast may be wrong asks at once: the zero time. One that
// waits for a slot is told when there is room, and asks all the same from time to time.
func (q *Queue) when(p *Place, t Times) time.Time {
	if p.soon {
		return time.Time{}
	}
	if q.atSlot(p.Slowest) {
		return p.heard.Add(unheard + time.Duration(p.Number%32)*unheard/64)
	}
	lead := t.Lead
	if p.early {
		lead = min(lead, t.Near)
	}
	return p.forecast.Add(-lead)
}

// unheard is how long a place that waits for a slot waits for news.
const unheard = 8 * time.Second

// atSlot reports whether a limit is of slots.
func (q *Queue) atSlot(limit int) bool { return limit >= 0 && limit < len(q.Slots) && q.Slots[limit] }

// Tags are those of the first n places that wait at a limit, and are not being asked for.
func (q *Queue) Tags(limit, n int) (tags []int64) {
	for _, p := range q.places[:min(len(q.places), len(q.waiting))] {
		if len(tags) == n {
			break
		}
		if p.Slowest == limit && !p.asked {
			tags = append(tags, p.Tags[limit])
		}
	}
	return tags
}

// Refresh lets the first n places ask at once, as their forecasts may be wrong, or new calls for
// which there are none yet. Those that are being asked for ask again: the answer may be older than
// what was heard since.
func (q *Queue) Refresh(n int) { q.RefreshAt(-1, n) }

// RefreshAt is Refresh for the places that wait at one limit; below 0: at any.
func (q *Queue) RefreshAt(limit, n int) {
	for _, p := range q.places {
		if limit >= 0 && p.Slowest != limit && !p.asked {
			continue
		}
		if !p.asked {
			if n--; n < 0 {
				return
			}
			p.early = false
		}
		p.soon = true
	}
	q.stale = min(q.asked, max(q.stale, n))
}

// Scale lets all forecasts come so much nearer or go so much farther: the limit is another.
func (q *Queue) Scale(now time.Time, factor float64) {
	for _, p := range q.places {
		p.forecast = now.Add(time.Duration(float64(p.forecast.Sub(now)) * factor))
	}
}

// Placed notes that a new call has a place.
func (q *Queue) Placed(p *Place, forecast, now time.Time) {
	q.asked--
	p.forecast, p.heard, p.soon = forecast, now, q.stale > 0
	q.stale = min(q.asked, max(0, q.stale-1))
	q.insert(p)
	if n := len(q.places); n <= len(q.waiting) && q.waiting[n-1].Held {
		q.waiting[n-1].Tell(Event{})
	}
}

// Booked notes that a new call does not wait here: it is to come back for its turn.
func (q *Queue) Booked(turn time.Time) {
	q.asked--
	if len(q.waiting) > 0 {
		q.pop().end(Event{Booked: turn})
	}
}

// Retag notes the tags of a place: a call may come forward.
func (q *Queue) Retag(p *Place, tags []int64) {
	if i := slices.Index(q.places, p); i >= 0 && tags != nil && !slices.Equal(tags, p.Tags) {
		q.places = slices.Delete(q.places, i, i+1)
		p.Tags = tags
		q.insert(p)
	}
}

func (q *Queue) insert(p *Place) {
	i, _ := slices.BinarySearchFunc(q.places, p, func(a, b *Place) int {
		return cmp.Or(slices.Compare(a.Tags, b.Tags), cmp.Compare(a.Number, b.Number))
	})
	q.places = slices.Insert(q.places, i, p)
}

// Granted notes that a new call was given a turn.
func (q *Queue) Granted(t *Turn, now time.Time) {
	q.asked--
	t.Placed = false
	q.Give(t, now)
	q.tellLast()
}

// tellLast tells the last call that has a place by now that it has one: a call before it has left,
// or had a turn that another call had asked for.
func (q *Queue) tellLast() {
	if n := min(len(q.places), len(q.waiting)); n > 0 && q.waiting[n-1].Held {
		q.waiting[n-1].Tell(Event{})
	}
}

// Moved notes another forecast of a place that was asked for.
func (q *Queue) Moved(p *Place, forecast, now time.Time, lead time.Duration) {
	q.told(p, forecast, now)
	p.early = !p.tells && forecast.Sub(now) <= lead
	p.forecast, p.heard, p.asked, p.tells, p.Back = forecast, now, false, false, ""
}

// told moves the forecasts of those behind a place that was to tell, at its limit, as far as its own;
// those that know something newer aside. If it comes nearer, so do those before it: they ask soon
// anyway, and it is better to be early.
func (q *Queue) told(p *Place, forecast, now time.Time) {
	if !p.tells {
		return
	}
	moved, heard, behind := forecast.Sub(p.forecast), p.heard, false
	for _, other := range q.places {
		behind = behind || other == p
		if other.Slowest == p.Slowest && !other.asked && !other.heard.After(heard) && (behind || moved < 0) {
			other.forecast, other.heard = other.forecast.Add(moved), now
		}
	}
}

// Waits notes the limit at which a place waits. What it hears at another one than before says nothing
// of those that still wait there.
func (q *Queue) Waits(p *Place, slowest int) {
	if p.Slowest != slowest {
		p.Slowest, p.tells = slowest, false
	}
}

// Reached notes that a place was given a turn. If that was to be farther off than turns are given,
// permits come sooner than others were told: the next two ask at once.
func (q *Queue) Reached(p *Place, t *Turn, now time.Time) {
	if i := slices.Index(q.places, p); i >= 0 {
		q.places = slices.Delete(q.places, i, i+1)
	}
	if p.far && !q.atSlot(p.Slowest) {
		q.hasten(p.Slowest, growth)
	}
	t.Placed, t.Slowest = true, p.Slowest
	q.Give(t, now)
}

// growth is how many places ask for each one that was given its turn sooner than it was told.
const growth = 2

// hasten lets the first n places at a limit ask at once that do not do so anyway.
func (q *Queue) hasten(limit, n int) {
	for _, p := range q.places {
		if p.Slowest == limit && !p.asked && !p.soon {
			if n--; n < 0 {
				return
			}
			p.soon, p.early = true, false
		}
	}
}

// Light reports whether calls of the queue are likely to find nobody waiting.
func (q *Queue) Light() bool { return len(q.places) == 0 }

// Lost notes that nothing is known of what was asked for: it is asked for anew.
func (q *Queue) Lost(ask Ask) {
	q.asked -= ask.New
	for _, p := range ask.Places {
		p.asked, p.tells = false, false
	}
}

// Refuse ends the waits of as many calls as a place or new call stands for: the last one.
func (q *Queue) Refuse(p *Place, err error) {
	if p == nil {
		q.asked--
	} else if i := slices.Index(q.places, p); i >= 0 {
		q.places = slices.Delete(q.places, i, i+1)
	}
	if n := len(q.waiting); n > 0 {
		q.waiting[n-1].end(Event{Err: err})
		q.waiting = q.waiting[:n-1]
	}
}

// Spare takes off the last places that nobody needs any more.
func (q *Queue) Spare() (spare []*Place) {
	for i := len(q.places) - 1; i >= 0 && len(q.places)+q.asked > len(q.waiting); i-- {
		if p := q.places[i]; !p.asked {
			spare = append(spare, p)
			q.places = slices.Delete(q.places, i, i+1)
		}
	}
	return spare
}

// Unused takes off the turns that nobody needs, the last one first.
func (q *Queue) Unused() []*Turn {
	turns := q.unused
	q.unused = nil
	slices.SortFunc(turns, func(a, b *Turn) int { return b.Due.Compare(a.Due) })
	return turns
}

// Overdue ends the waits of those whose deadline comes before their turn, as far as their
// places tell.
func (q *Queue) Overdue() {
	for i := 0; i < min(len(q.places), len(q.waiting)); {
		if q.misses(q.waiting[i], q.places[i].forecast, q.places[i].Slowest) {
			q.waiting = slices.Delete(q.waiting, i, i+1)
		} else {
			i++
		}
	}
}

// Done notes that a turn holds its slots no longer.
func (q *Queue) Done(t *Turn) { q.done = append(q.done, t) }

// Ended takes off the turns that hold their slots no longer.
func (q *Queue) Ended() []*Turn {
	done := q.done
	q.done = nil
	return done
}
