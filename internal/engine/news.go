package engine

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// Turns may be revoked, by a pause for example, and forecasts change as other calls leave. The scripts publish
// that on a channel, and a process in which calls wait listens to it. While the process may miss news, its
// first calls ask from time to time.

const (
	glance    = time.Second // about: how often calls ask in a process that may miss news
	deafAfter = 2 * glance  // a process that has received nothing for this long may miss news
	glances   = 16          // the number of lines that ask at once in such a process

	// When Redis notifies a process of a free slot, the process has a moment to ask for it, as the message may
	// be lost. No message says that a pause ends. So a reply says when the process has to look at the limit. It
	// looks slack later, unless another reply has come meanwhile. Then Redis notifies again where no call has
	// come.
	slack     = 100 * time.Millisecond
	mostLooks = 12 // limits that one script call looks at
)

// news is what the process learns of its limits, and what it does where it may miss something.
type news struct {
	heard  time.Time                 // when the process last received anything on its connection for news
	glance alarm                     // set while there are lines
	looks  map[*wire.Limit]time.Time // limits with slots, and when the process looks at them
	look   alarm
	vain   map[*wire.Limit]bool // limits of slots at which a look has found that no call came for a free one

	moves     map[string]*move // by key: what happened to the limit recently
	mostMoves int              // with this many moves, the old ones are forgotten
	moving    map[string]int   // by key: the calls of this process that are moving the limit
}

// needsNews reports whether this process needs news. While it has lines, it also sets the alarm by which their
// calls ask from time to time.
func (e *Engine) needsNews(now time.Time) bool {
	if e.closed {
		return false
	}
	if len(e.lines) > 0 {
		if e.news.glance.index == 0 {
			e.alarms.set(&e.news.glance, now.Add(time.Duration((0.25+0.75*e.cfg.Random())*float64(glance))))
		}
		return e.cfg.Channel != ""
	}
	if e.cfg.Channel == "" {
		return false
	}
	for _, l := range e.leases {
		if _, has := l.has(); has {
			return true
		}
	}
	return false
}

// Subscribed notes that the process receives news from now on. It may have missed some before.
func (e *Engine) Subscribed(now time.Time) {
	e.heard = now
	e.forgetMissed()
	e.refreshLines(func(*line) bool { return true })
}

// Alive notes that the process receives something on its connection, whatever that is.
func (e *Engine) Alive(now time.Time) { e.heard = now }

// News handles a message of the scripts. About a limit it is "news <what,...> <micros> <key>", and about a
// process "dead <process>". About the limit in force under a name it is
// "limit <rank> <key of the name's limits>". "protocol <number>" says that the first process of another protocol
// has come. A key may have spaces.
func (e *Engine) News(now time.Time, text string) {
	e.heard = now
	words := strings.SplitN(text, " ", 4)
	switch {
	case words[0] == "dead":
		e.forgetMissed()
		e.refreshLines(func(*line) bool { return true })
	case words[0] == "protocol":
		e.hurry(now)
	case words[0] == "limit":
		_, key, _ := strings.Cut(strings.TrimPrefix(text, "limit "), " ")
		for name, u := range e.names {
			if name.Keys[0] == key { // the next heartbeat has the name
				u.stale = now
				e.hurry(now)
			}
		}
	case words[0] == "news" && len(words) == 4:
		if micros, err := strconv.ParseInt(words[2], 10, 64); err == nil {
			e.newsOf(words[3], strings.Split(words[1], ","), micros, now)
		}
	}
}

// newsOf handles what happened to the limit with a key, at a time of Redis. The scripts publish these words: see
// tell and tellLeft in places.lua.
func (e *Engine) newsOf(key string, kinds []string, micros int64, now time.Time) {
	until := int64(math.MaxInt64)
	for _, what := range kinds {
		switch word, rest, _ := strings.Cut(what, ":"); word {
		case "until":
			until, _ = strconv.ParseInt(rest, 10, 64)
		case "paused":
			e.heardOf(key, word, micros)
			e.pausedAt(key, micros, until, now)
		case "resumed":
			e.heardOf(key, word, micros)
			e.refreshKey(key, 0, micros, now)
		case "limit":
			e.heardOf(key, word, micros)
			e.changedTo(key, newChange(micros, rest), now)
		case "overdue": // the head of the queue is late
			if rest == e.cfg.Process {
				e.roomAt(key, 1, micros)
			}
		case "room": // slots are free for the first calls of a process, as many as count says
			process, count, _ := strings.Cut(rest, ":")
			if n, _ := strconv.Atoi(count); process == e.cfg.Process && n > 0 {
				e.roomAt(key, n, micros)
			}
		case "left": // turns may be sooner, of calls behind a tag if there is one
			tag, _ := strconv.ParseInt(rest, 10, 64)
			e.refreshKey(key, tag, micros, now)
		default: // settled, or a word of a later version: turns may be sooner
			e.refreshKey(key, 0, micros, now)
		}
	}
}

// refreshKey makes the first call of each line that needs the limit with a key ask: its forecast may be wrong,
// because of news of a time of Redis. Above 0, the news are about calls behind a tag alone.
func (e *Engine) refreshKey(key string, tag, news int64, now time.Time) {
	e.forgetMissed()
	for _, l := range e.inUse {
		if l.isAt(key) && (tag <= 0 || l.hasBehind(key, tag)) {
			l.refreshes(-1, 1, len(l.places), news)
		}
	}
}

// hasBehind reports whether a call of the line is behind a tag at the limit with a key, or may be.
func (l *line) hasBehind(key string, tag int64) bool {
	i := slices.IndexFunc(l.parts, func(p Part) bool { return p.Limit.Keys[0] == key })
	return l.asked > 0 || slices.ContainsFunc(l.places, func(p *place) bool { return p.tags[i] > tag })
}

// refreshLines makes the first call of some lines ask.
func (e *Engine) refreshLines(some func(*line) bool) {
	for _, l := range e.inUse {
		if some(l) {
			l.refresh(-1, 1)
		}
	}
}

// roomAt makes the first n calls that wait at the limit with a key ask, because of news of a time of Redis.
func (e *Engine) roomAt(key string, n int, news int64) {
	type first struct {
		line *line
		tag  int64
	}
	var all []first
	var found []*line
	ask, at := map[*line]int{}, map[*line]int{}
	for _, l := range e.inUse {
		i := slices.IndexFunc(l.parts, func(p Part) bool { return p.Limit.Keys[0] == key })
		if i < 0 {
			continue
		}
		at[l], found = i, append(found, l) // the answers that it waits for may be older
		for _, tag := range l.tags(i, n) {
			all = append(all, first{l, tag})
		}
	}
	slices.SortFunc(all, func(x, y first) int { return cmp.Compare(x.tag, y.tag) })
	for _, f := range all[:min(n, len(all))] {
		ask[f.line]++
	}
	asking := max(0, n-len(all)) // this many permits are left for calls that are asking
	for _, l := range found {
		l.refreshes(at[l], ask[l]+asking, n, news)
	}
}

// glanceNow makes the first calls of some lines ask if the process may miss news. Otherwise, it does so only
// where the first place of a line sleeps. If that place is asking, its answer is as good as that of another ask.
func (e *Engine) glanceNow(now time.Time) {
	if e.outage != nil {
		return
	}
	hears := now.Sub(e.heard) <= deafAfter
	first := int(e.cfg.Random() * float64(len(e.inUse)))
	for k := range min(glances, len(e.inUse)) {
		l := e.inUse[(first+k)%len(e.inUse)]
		if needed := l.needed(); len(needed) > 0 && !needed[0].asking && (!hears || l.sleeps(needed[0], now)) {
			l.refresh(-1, 1)
		}
	}
}

// lookAfter notes when the process has to look at limits with slots, as their last replies say.
func (e *Engine) lookAfter(limits []*wire.Limit, now time.Time) {
	for _, l := range limits {
		if !l.HasSlots() {
			continue
		}
		after := l.Looks()
		if after <= 0 || e.closed {
			delete(e.looks, l)
			delete(e.vain, l)
			continue
		}
		at := now.Add(after + slack)
		e.looks[l] = at
		if e.look.index == 0 || at.Before(e.look.at) {
			e.alarms.set(&e.look, at)
		}
	}
}

// lookNow looks at the limits with slots whose moment has come.
func (e *Engine) lookNow(now time.Time) {
	if e.outage != nil { // all lines ask again when Redis is back
		clear(e.looks)
	}
	var due []*wire.Limit
	next := time.Time{}
	for l, at := range e.looks {
		switch {
		case !at.After(now):
			due = append(due, l)
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	slices.SortFunc(due, func(a, b *wire.Limit) int {
		return cmp.Or(e.looks[a].Compare(e.looks[b]), cmp.Compare(a.Keys[0], b.Keys[0]))
	})
	if len(due) > mostLooks {
		due, next = due[:mostLooks], now
	}
	for _, l := range due {
		delete(e.looks, l)
	}
	if !next.IsZero() {
		e.alarms.set(&e.look, later(next, now.Add(slack)))
	}
	if len(due) == 0 {
		return
	}
	b := e.batch(Leave)
	b.limits = due
	for i := range due {
		b.Left = append(b.Left, wire.Left{Limit: i, Look: true})
	}
	b.answered = func(now time.Time, _ *Result) {
		e.lookAfter(due, now)
		e.passOver(due, now)
	}
	b.failed = func(time.Time, error) {}
	e.once(b, now)
}

// passOver removes the first place of a limit if two looks in a row have found that no notified call came. Perhaps no
// call has that place, and no other call asks for the limit for long. An ask removes it, and may get its slot: it is
// freed at once.
func (e *Engine) passOver(limits []*wire.Limit, now time.Time) {
	b := e.batch(Ask)
	for _, l := range limits {
		waits := func(o *line) bool { return o.isAt(l.Keys[0]) && len(o.waiting) > 0 } // such a call asks
		switch _, looks := e.looks[l]; {
		case !looks || slices.ContainsFunc(e.inUse, waits):
			delete(e.vain, l)
		case !e.vain[l]:
			e.vain[l] = true
		default:
			e.number++
			b.Items = append(b.Items, wire.Item{Count: 1, Number: e.number, Now: true, Parts: []wire.Part{{Limit: b.at(l), Cost: 1}}})
			e.auditOf(l, now)
		}
	}
	if len(b.Items) == 0 || now.Sub(e.answered) > trusted {
		e.recycle(b)
		return
	}
	b.answered = func(now time.Time, r *Result) {
		var of []*wire.Limit
		var left []wire.Left
		for i := range b.Items {
			if r.Answers[i].Turns() > 0 {
				item := &b.Items[i]
				of, left = append(of, b.limits[item.Parts[0].Limit]), append(left, wire.Left{Place: item.Number, Cost: 1, Done: true})
			}
		}
		e.lookAfter(b.limits, now)
		e.freeSlots(of, left, e.clock.redis(now), now)
	}
	b.failed = func(time.Time, error) {} // auditSlots frees the slots
	e.once(b, now)
}
