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

// near takes the places whose forecasts are near, at most so many. With them goes the first
// one that is too far off to be given a turn: what it hears moves all forecasts.
func (q *Queue) near(now time.Time, t Times, most int) (near []*Place) {
	for _, p := range q.places[:min(len(q.places), len(q.waiting))] {
		switch {
		case p.asked:
		case !q.when(p, t).After(now), len(near) > 0 && q.nearly(p, now, t):
			p.asked, p.soon = true, false
			near = append(near, p)
		case len(near) == 0:
			return nil
		case q.atSlot(p.Slowest):
		case p.forecast.Sub(now) > t.Horizon:
			p.asked, p.tells, p.soon = true, true, false
			return append(near, p)
		}
		if len(near) == most {
			return near
		}
	}
	return near
}

// When is when the queue has something to ask for; false: not as things stand.
func (q *Queue) When(t Times) (time.Time, bool) {
	fresh := q.fresh() > 0
	if fresh && q.gathers.IsZero() {
		return time.Time{}, true
	}
	for _, p := range q.places[:min(len(q.places), len(q.waiting))] {
		if !p.asked {
			if when := q.when(p, t); !fresh || when.Before(q.gathers) {
				return when, true
			}
			break
		}
	}
	return q.gathers, fresh
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
func (q *Queue) Refresh(n int) {
	for _, p := range q.places {
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
}

// Moved notes another forecast of a place that was asked for.
func (q *Queue) Moved(p *Place, forecast, now time.Time, lead time.Duration) {
	q.told(p, forecast, now)
	p.early = !p.tells && forecast.Sub(now) <= lead
	p.forecast, p.heard, p.asked, p.tells, p.Back = forecast, now, false, false, ""
}

// told moves the forecasts of those that know nothing newer as far as that of a place that was
// to tell.
func (q *Queue) told(p *Place, forecast, now time.Time) {
	if !p.tells {
		return
	}
	moved, heard, behind := forecast.Sub(p.forecast), p.heard, false
	for _, other := range q.places {
		behind = behind || other == p
		// One before it asks soon anyway: it is better to be early.
		if !other.asked && !other.heard.After(heard) && (behind || moved < 0) {
			other.forecast, other.heard = other.forecast.Add(moved), now
		}
	}
}

// Reached notes that a place was given a turn. One that was to tell how far others are does so
// by that: it was nearer than it knew.
func (q *Queue) Reached(p *Place, t *Turn, now time.Time) {
	q.told(p, t.Due, now)
	if i := slices.Index(q.places, p); i >= 0 {
		q.places = slices.Delete(q.places, i, i+1)
	}
	t.Placed, t.Slowest = true, p.Slowest
	q.Give(t, now)
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
