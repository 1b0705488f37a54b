package asker

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/internal/queue"
)

// Turns that were given may be taken back, by a pause for example, and forecasts change as
// others leave. The scripts tell so on a channel, and a process in which calls wait listens.
// While it is not sure to hear, its first calls ask from time to time.

const (
	look    = time.Second // how often a silent connection is tried, and it is looked whether calls still wait
	sure    = 2 * look    // for so long after it has heard something a process is sure to hear news
	silence = 3 * look    // after which a connection is given up
	mostOff = time.Minute // the longest pause between two attempts to listen where Redis forbids it …
	leftOff = 3           // … and where it does not answer: that of so many failures
	glances = 16          // how many kinds ask at once that are not sure to hear
)

// listen begins to listen, if the process does not do so yet. The Asker must be locked.
func (a *Asker) listen() {
	if !a.looking {
		a.looking = true
		a.busy.Go(func() {
			for a.rest(time.Duration((0.25+0.75*rand.Float64())*float64(look))) && a.glance() {
			}
		})
	}
	if a.listening || a.cfg.Channel == "" {
		return
	}
	a.listening = true
	a.busy.Go(func() {
		for failures := 0; ; failures++ {
			began := time.Now()
			err := a.subscribe()
			if a.hasHeard(began) {
				failures = 0
			}
			pause := backoff(min(failures, leftOff))
			if !fault.Away(fault.Classify(err)) {
				pause = min(mostOff, backoff(failures)<<min(failures, 8))
			}
			if !a.needsNews() || err != nil && !a.rest(pause) {
				return
			}
		}
	})
}

// hasHeard reports whether the process has heard something since a moment.
func (a *Asker) hasHeard(since time.Time) bool {
	a.lock()
	defer a.mu.Unlock()
	return a.heard.After(since)
}

// hears notes that the process hears its connection, whatever that says.
func (a *Asker) hears() {
	a.lock()
	defer a.mu.Unlock()
	a.heard = time.Now()
}

// glance lets the first calls of some kinds ask, unless the process is sure to hear news. It
// reports false if no calls wait.
func (a *Asker) glance() bool {
	a.lock()
	defer a.mu.Unlock()
	if len(a.kinds) == 0 || a.closed {
		a.looking = false
		return false
	}
	if a.away == nil && time.Since(a.heard) > sure {
		n := 0
		a.refreshAll(func(*kind) bool { n++; return n <= glances })
	}
	return true
}

// needsNews reports whether calls wait, or turns are there ahead of calls, and ends the listening if
// not.
func (a *Asker) needsNews() bool {
	a.lock()
	defer a.mu.Unlock()
	if a.isConcerned() {
		return true
	}
	a.listening = false
	return false
}

func (a *Asker) waits() bool {
	a.lock()
	defer a.mu.Unlock()
	return a.isConcerned()
}

// isConcerned reports whether news matter to this process. The Asker must be locked.
func (a *Asker) isConcerned() bool {
	if a.closed {
		return false
	}
	for _, l := range a.leases {
		if len(l.turns) > 0 {
			return true
		}
	}
	return len(a.kinds) > 0
}

// subscribe takes in news until the connection fails, or for as long as calls wait.
func (a *Asker) subscribe() error {
	ctx := a.life
	news := a.cfg.Client.Subscribe(ctx, a.cfg.Channel)
	// Close waits for a connection that is being made, and in simulated time no time passes for
	// who waits for a lock: so it interrupts what is connected only.
	stop := func() bool { return true }
	defer func() {
		if stop() {
			_ = news.Close()
		}
	}()
	heard := time.Now()
	for {
		message, err := news.ReceiveTimeout(ctx, look)
		if isTimeout(err) {
			if !a.waits() {
				return nil
			}
			if time.Since(heard) < silence {
				if err = news.Ping(ctx); err == nil {
					continue
				}
			}
		}
		if err != nil {
			return err
		}
		heard = time.Now()
		a.hears()
		switch m := message.(type) {
		case *redis.Message:
			a.hear(m.Payload)
		case *redis.Subscription:
			stop = context.AfterFunc(ctx, func() { _ = news.Close() })
			a.refresh("") // there may have been news before
		}
	}
}

func isTimeout(err error) bool {
	var net interface{ Timeout() bool }
	return errors.As(err, &net) && net.Timeout()
}

// hear takes in what the scripts publish: of a limit "news <what,...> <micros> <key>", of
// processes "dead <process>" and of what is in force under a name "limit <rank> <key of the name's
// limits>". A key may have spaces.
func (a *Asker) hear(text string) {
	words := strings.SplitN(text, " ", 4)
	switch {
	case words[0] == "dead":
		a.refresh("")
	case words[0] == "limit":
		_, key, _ := strings.Cut(strings.TrimPrefix(text, "limit "), " ")
		a.retell(key)
	case words[0] == "news" && len(words) == 4:
		key := words[3]
		micros, err := strconv.ParseInt(words[2], 10, 64)
		if err != nil {
			return
		}
		until := int64(math.MaxInt64)
		for _, what := range strings.Split(words[1], ",") {
			switch word, rest, _ := strings.Cut(what, ":"); word {
			case "until":
				until, _ = strconv.ParseInt(rest, 10, 64)
			case "paused":
				a.heardOf(key, word, micros)
				a.void(key, micros, until)
			case "resumed":
				a.heardOf(key, word, micros)
				a.refresh(key)
			case "limit":
				a.heardOf(key, word, micros)
				a.change(key, newChange(micros, rest))
			default:
				if process, overdue := strings.CutPrefix(what, "overdue:"); overdue {
					if process == a.process {
						a.room(key, 1)
					}
				} else if n, room := a.told(what); room {
					a.room(key, n)
				} else {
					a.refresh(key)
				}
			}
		}
	}
}

// told reads "room:<process>:<n>": there is room for the first n calls of a process at a limit of
// slots; 0 of another one.
func (a *Asker) told(what string) (n int, room bool) {
	text, room := strings.CutPrefix(what, "room:")
	if process, count, _ := strings.Cut(text, ":"); room && process == a.process {
		n, _ = strconv.Atoi(count)
	}
	return n, room
}

// room lets the first n calls ask that wait at the limit of slots with a key.
func (a *Asker) room(key string, n int) {
	if n == 0 {
		return
	}
	type first struct {
		kind *kind
		tag  int64
	}
	var all []first
	ask, at := map[*kind]int{}, map[*kind]int{}
	now := time.Now()
	a.lock()
	defer a.mu.Unlock()
	for _, k := range a.kinds {
		i := slices.IndexFunc(k.parts, func(p Part) bool { return p.Limit.Keys[0] == key })
		if i < 0 {
			continue
		}
		at[k] = i
		ask[k] = 0 // what it is being asked may be older
		for _, tag := range k.queue.Tags(i, n) {
			all = append(all, first{k, tag})
		}
	}
	slices.SortFunc(all, func(x, y first) int { return cmp.Compare(x.tag, y.tag) })
	for _, f := range all[:min(n, len(all))] {
		ask[f.kind]++
	}
	t, others := a.clock.now(now), max(0, n-len(all)) // are being asked for
	for k, count := range ask {
		k.queue.RefreshAt(at[k], count+others)
		a.plan(k, t, now)
	}
	a.kick()
}

// refresh lets the first call of each kind ask whose forecasts may be wrong: at the limit with a
// key, or at all.
func (a *Asker) refresh(key string) {
	a.lock()
	defer a.mu.Unlock()
	a.forgetMissed(key, time.Now())
	a.refreshAll(func(k *kind) bool { return key == "" || k.at(key) })
}

// refreshAll does so with some kinds. The Asker must be locked.
func (a *Asker) refreshAll(some func(*kind) bool) {
	now := time.Now()
	t := a.clock.now(now)
	for _, k := range a.kinds {
		if some(k) {
			k.queue.Refresh(1)
			a.plan(k, t, now)
		}
	}
	a.kick()
}

// move is what happened to a limit of late. Replies may have been on their way then.
type move struct {
	paused, until int64     // times of Redis: turns that were given until the one, and are due before the other, are void
	changed       int64     // when it became another one
	own           int64     // when this process did something to it
	heard         time.Time // when the process heard of the last of these
}

// overtaken is for how long a reply may come that was on its way as a limit was moved.
const overtaken = time.Minute

// moveOf is what happened to the limit with a key of late, to be told more. Those of long ago are
// forgotten. The Asker must be locked.
func (a *Asker) moveOf(key string) *move {
	now := time.Now()
	if len(a.moves) >= a.mostMoves {
		a.forgetMoves(now)
		a.mostMoves = 2*len(a.moves) + 100
	}
	m := a.moves[key]
	if m == nil {
		m = &move{}
		a.moves[key] = m
	}
	m.heard = now
	return m
}

// forgetMoves forgets what happened long ago. The Asker must be locked.
func (a *Asker) forgetMoves(now time.Time) {
	maps.DeleteFunc(a.moves, func(_ string, m *move) bool { return now.Sub(m.heard) > overtaken })
}

// void takes the turns of a limit back that were not used, were given until a time of Redis, and are
// due before another one.
func (a *Asker) void(key string, given, due int64) {
	a.lock()
	defer a.mu.Unlock()
	if m := a.moveOf(key); given >= m.paused {
		m.paused, m.until = given, due
	}
	a.takeBack(key, func(t *queue.Turn) bool { return t.Given <= given && t.Moment < due })
}

// takeBack takes turns of a limit back that were not used. The Asker must be locked.
func (a *Asker) takeBack(key string, void func(*queue.Turn) bool) {
	a.dropLeases(key, void)
	now := time.Now()
	a.forgetMissed(key, now)
	for _, k := range a.kinds {
		if k.at(key) {
			if n := k.queue.Void(void, now); n > 0 {
				a.watch(Event{What: Voided, N: n, Need: &k.need})
			}
		}
	}
	a.refreshAll(func(k *kind) bool { return k.at(key) })
}

// change is that of a limit. Turns that were given before keep their moments. Turns of a paced limit may
// be used when they are due, and no later: two that are both used late may be too close together for
// the limit that is in force then.
type change struct {
	at    int64 // A time of Redis.
	paced bool  // It has another interval, or a smaller burst.
}

// newChange reads "<factor>:<less>" of the news.
func newChange(at int64, text string) change { return change{at: at, paced: text != "1:0"} }

// shorten lets a turn be used when it is due, and reports whether that is less long.
func (c *change) shorten(t *queue.Turn) bool {
	return c.paced && t.Given <= c.at && t.Process != "" && shortenTo(t, t.Due)
}

// shortenTo lets a turn be used until a moment at the most, or when it is due.
func shortenTo(t *queue.Turn, until time.Time) bool {
	until = later(until, t.Due.Add(Tolerance))
	if !until.Before(t.Until) {
		return false
	}
	t.Until = until
	return true
}

// change follows a limit that is another one.
func (a *Asker) change(key string, c change) {
	a.lock()
	defer a.mu.Unlock()
	m := a.moveOf(key)
	m.changed = max(m.changed, c.at)
	a.forgetMissed(key, m.heard)
	for part, l := range a.leases {
		for i := range l.turns {
			if part.Limit.Keys[0] == key {
				c.shorten(&l.turns[i])
			}
		}
	}
	for _, k := range a.kinds {
		if k.at(key) {
			k.queue.Change(c.shorten)
		}
	}
	a.refreshAll(func(k *kind) bool { return k.at(key) })
}

// heardOf tells the watch that another process has moved a limit; what this one did itself is not
// told.
func (a *Asker) heardOf(key, what string, micros int64) {
	a.lock()
	defer a.mu.Unlock()
	if m := a.moves[key]; a.moving[key] > 0 || m != nil && m.own == micros {
		return
	}
	for _, pulse := range a.names {
		for l := range pulse.limits {
			if l.Keys[0] == key {
				a.watch(Event{What: Moved, Limit: l, Text: what})
				return
			}
		}
	}
}

// overtakenBy lets a turn of a reply be what it is after all that happened to its limits since the ask
// was sent: false, if it is void. Times of Redis alone do not tell, as its clock may have stepped back.
// The Asker must be locked.
func (a *Asker) overtakenBy(k *kind, t *queue.Turn, sent time.Time) bool {
	if len(a.moves) == 0 {
		return true
	}
	for _, p := range k.parts {
		m := a.moves[p.Limit.Keys[0]]
		if m != nil && sent.After(m.heard) {
			continue
		}
		if m != nil && t.Given <= m.paused && t.Moment < m.until {
			return false
		}
		if m != nil && t.Given < m.changed {
			shortenTo(t, t.Due)
		}
	}
	return true
}

// at reports whether the calls of a kind need the limit with a key.
func (k *kind) at(key string) bool {
	return slices.ContainsFunc(k.parts, func(p Part) bool { return p.Limit.Keys[0] == key })
}
