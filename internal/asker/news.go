package asker

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/fault"
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

// needsNews reports whether calls wait, and ends the listening if none does.
func (a *Asker) needsNews() bool {
	a.lock()
	defer a.mu.Unlock()
	if len(a.kinds) > 0 && !a.closed {
		return true
	}
	a.listening = false
	return false
}

func (a *Asker) waits() bool {
	a.lock()
	defer a.mu.Unlock()
	return len(a.kinds) > 0 && !a.closed
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
		for _, what := range strings.Split(words[1], ",") {
			switch what {
			case "paused", "resumed", "limit":
				a.heardOf(key, what, micros)
				a.void(key, micros)
			case "eased":
				a.heardOf(key, "limit", micros)
				a.refresh(key)
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

// voiding is of turns of a limit.
type voiding struct {
	until int64     // a time of Redis: those that were given before are void
	heard time.Time // when the process heard so
	own   int64     // the same of what this process did itself
}

// overtaken is for how long a reply may come that was on its way as turns became void.
const overtaken = time.Minute

// void takes turns of a limit back that were not used, and given until a time of Redis.
func (a *Asker) void(key string, micros int64) {
	now := time.Now()
	a.lock()
	defer a.mu.Unlock()
	t := a.clock.now(now)
	if micros < math.MaxInt64 {
		v := a.voided[key]
		v.until, v.heard = max(micros, v.until), now
		a.voided[key] = v
	}
	a.dropLeases(key)
	a.forgetMissed(key, now)
	for _, k := range a.kinds {
		if !k.at(key) {
			continue
		}
		if n := k.queue.Void(micros, now); n > 0 {
			a.watch(Event{What: Voided, N: n, Need: &k.need})
		}
		k.queue.Refresh(1)
		a.plan(k, t, now)
	}
	a.kick()
}

// heardOf tells the watch that another process has moved a limit; what this one did itself is not
// told.
func (a *Asker) heardOf(key, what string, micros int64) {
	a.lock()
	defer a.mu.Unlock()
	if a.moving[key] > 0 || a.voided[key].own == micros {
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

// isVoid reports whether a turn of a kind is void that was given at a time of Redis. The Asker must
// be locked.
func (a *Asker) isVoid(k *kind, given int64) bool {
	return len(a.voided) > 0 && slices.ContainsFunc(k.parts, func(p Part) bool {
		v, ok := a.voided[p.Limit.Keys[0]]
		return ok && given < v.until
	})
}

// at reports whether the calls of a kind need the limit with a key.
func (k *kind) at(key string) bool {
	return slices.ContainsFunc(k.parts, func(p Part) bool { return p.Limit.Keys[0] == key })
}
