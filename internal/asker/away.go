package asker

import (
	"context"
	"errors"
	"time"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/internal/meter"
	"github.com/fleetpace/fleetpace/internal/outage"
	"github.com/fleetpace/fleetpace/internal/queue"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// Away is what calls do while Redis is away.
type Away int

// What calls may do.
const (
	AwayWait  Away = iota // wait until it is back
	AwayFail              // fail
	AwayOpen              // go on, beyond any limit
	AwayLocal             // go on at this process's share of the limit
)

// errAway is of a call that the breaker does not let through any more.
var errAway = errors.New("redis is away")

// spent is what was spent of a limit without Redis.
type spent struct {
	share *outage.Share // nil: calls are not paced
	pace  float64       // of the share
	count int64

	// Of a quota or a rolling limit: until which moment of Redis its window lasts, and what was
	// spent in it.
	ends   int64
	recent []spending
}

// spending is permits that were spent without Redis, at about the same time.
type spending struct {
	at      time.Time
	permits int64
}

// grains is how finely the spendings of a window are kept.
const grains = 16

// enter begins another window of a limit, if it is one, and forgets what counts no more.
func (s *spent) enter(l *wire.Limit, now time.Time, ends int64) {
	if l.Kind == "q" && s.ends != ends {
		s.ends, s.recent = ends, nil
	}
	for len(s.recent) > 0 && l.Kind == "r" && now.Sub(s.recent[0].at) > l.Window() {
		s.recent = s.recent[1:]
	}
}

// spend notes permits of a limit that were spent.
func (s *spent) spend(l *wire.Limit, now time.Time, permits int64) {
	s.count += permits
	if l.Kind != "q" && l.Kind != "r" {
		return
	}
	last := len(s.recent) - 1
	if last < 0 || l.Kind == "r" && now.Sub(s.recent[last].at) > l.Window()/grains {
		s.recent = append(s.recent, spending{at: now, permits: permits})
		return
	}
	s.recent[last].permits += permits
	s.recent[last].at = now
}

// inWindow is what was spent of the window of now.
func (s *spent) inWindow() (sum int64) {
	for _, r := range s.recent {
		sum += r.permits
	}
	return sum
}

// rest is for how long permits of a limit are not at hand, as its window is used up: by what the
// process was told last, by its part of what was left then, and by what it has spent since.
func (s *spent) rest(l *wire.Limit, now time.Time, cost int64) time.Duration {
	left, ends, after, known := l.Left(now)
	s.enter(l, now, ends)
	if !known || s.inWindow()+cost <= left/max(1, l.Name.Alive.Load()) {
		return 0
	}
	return after
}

// attempt makes a call until Redis answers, or counts as away.
func (a *Asker) attempt(call func() error) error {
	b := a.cfg.Breaker
	for failures := 0; ; failures++ {
		if b.Open() {
			return errAway
		}
		var err error
		if a.unmet.Load() {
			err = a.meet()
		}
		if err == nil {
			err = call()
		}
		b.Record(context.Background(), err)
		if err == nil || !fault.Away(err) || b.Hopeless(err) {
			return err
		}
		if !errors.Is(err, fault.ErrMigrating) {
			a.unmet.Store(true)
		}
		a.watch(Event{What: Failed, N: 1, Err: err})
		switch {
		case b.Open():
			return errAway
		case !a.rest(backoff(failures)):
			return a.cfg.Errors.Closed
		}
	}
}

// beAway begins the time without Redis, if it has not begun. The Asker must be locked.
func (a *Asker) beAway() {
	if a.away != nil || a.closed {
		return
	}
	a.away = map[*wire.Limit]*spent{}
	a.since = time.Now()
	for name := range a.names {
		name.Meter.Add(meter.Outages, 1)
	}
	a.busy.Go(func() {
		// To look for Redis takes as long as the client's timeouts do. Calls do not stand still
		// meanwhile.
		met, looks := make(chan error, 1), false
		for {
			next := a.serve()
			if !looks && a.cfg.Breaker.Pass() {
				looks = true
				a.busy.Go(func() { met <- a.meet() })
			}
			timer := time.NewTimer(min(max(time.Until(next), time.Millisecond), probing))
			select {
			case err := <-met:
				looks = false
				if a.comeBack(err) {
					timer.Stop()
					return
				}
			case <-timer.C:
			case <-a.joined:
			case <-a.life.Done():
			}
			timer.Stop()
			if a.life.Err() != nil {
				return
			}
		}
	})
}

// probing is how often it is looked whether Redis may be tried.
const probing = 50 * time.Millisecond

// alone is for how long a turn may be used that a process gives itself. It is given when it is
// due, so the call needs time to hear of it; and what comes together in that time is little.
const alone = 100 * time.Millisecond

// serve lets calls through as Config.Away says, and returns when the next one may be.
func (a *Asker) serve() time.Time {
	now := time.Now()
	a.lock()
	defer a.mu.Unlock()
	next := now.Add(probing)
	for _, k := range a.kinds {
		a.refuse(k)
	}
	if a.cfg.Away == AwayWait {
		return next
	}
	for _, k := range a.kinds {
		if a.cfg.Away == AwayFail {
			k.queue.Fail(a.cfg.Errors.Away)
		}
		for k.queue.Waiting() > 0 {
			if at := a.localTurn(k, now); at.After(now) {
				next = earlier(next, at)
				if k.need.Now {
					k.queue.Fail(&NotNow{Wait: at.Sub(now)})
				}
				break
			}
			k.queue.Give(&queue.Turn{Due: now, Until: now.Add(alone), Pace: a.away[k.need.Limit].pace, Later: now.Sub(k.queue.Oldest()) >= asking}, now)
		}
	}
	return next
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// localTurn is when the next call of a kind may be made; one that may be made now is paid for.
// The Asker must be locked.
func (a *Asker) localTurn(k *kind, now time.Time) time.Time {
	at := now
	for _, p := range k.parts {
		if p.Limit.Kind == "s" && a.cfg.Away == AwayLocal { // who holds slots nobody knows
			return now.Add(probing)
		}
		at = later(at, a.still[p.Limit.Keys[0]])
		s := a.away[p.Limit]
		if s == nil {
			s = &spent{}
			if a.cfg.Away == AwayLocal {
				perSecond, burst := a.cfg.Share(p.Limit)
				s.pace, s.share = perSecond, outage.NewShare(perSecond, burst, a.since.Add(a.clock.now(now).horizon))
			}
			a.away[p.Limit] = s
		}
		if s.share == nil {
			continue
		}
		at = later(at, now.Add(s.rest(p.Limit, now, p.Cost)))
		if due := s.share.At(now, p.Cost); due.After(at) {
			at = due
			s.share.Plan(due)
		}
	}
	if at.After(now) {
		return at
	}
	for _, p := range k.parts {
		s := a.away[p.Limit]
		s.spend(p.Limit, now, p.Cost)
		if s.share != nil {
			s.share.Take(now, p.Cost)
		}
	}
	return now
}

// meet makes a heartbeat before the call that follows a failure, of whatever call: it tells
// whether another server answers now, which may know less than the one before. It is one script
// call, however many names the process uses.
func (a *Asker) meet() error {
	a.unmet.Store(false)
	if _, _, err := a.tell1(nil, false); errors.Is(err, fault.ErrUnavailable) {
		a.unmet.Store(true) // also where a slot moves
		return err
	}
	return nil
}

// server is the run ID of the one that answered last, as far as it is known.
func (a *Asker) server() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.run
}

// comeBack tells Redis what was spent without it, if it was met. It reports whether Redis has
// answered.
func (a *Asker) comeBack(err error) bool {
	if err != nil {
		a.cfg.Breaker.Record(context.Background(), err)
		return false
	}
	now := time.Now()
	a.lock()
	call := &wire.Call{Caller: a.caller(a.clock.now(now)), Client: a.cfg.Client, Now: now, Clock: a.clock.redis(now)}
	var items []wire.Used
	for l, s := range a.away {
		used := min(s.count, l.Most()) // the API has let no more through
		switch _, ends, _, windows := l.Left(now); {
		case l.Kind == "r" || l.Kind == "q" && windows: // all of it counts until its window ends
			s.enter(l, now, ends)
			used = min(used, s.inWindow())
		case s.share != nil:
			used = min(used, s.share.Debt(now))
		}
		items = append(items, wire.Used{Limit: len(call.Limits), Cost: now.Sub(a.since).Microseconds(), Used: used})
		call.Limits = append(call.Limits, l)
	}
	for _, k := range a.kinds { // in a cluster another server would answer a call of no limit
		if len(call.Limits) == 0 {
			call.Limits = []*wire.Limit{k.need.Limit}
		}
	}
	a.mu.Unlock()
	reply, _, err := wire.Settle(context.Background(), call, items)
	a.cfg.Breaker.Record(context.Background(), err)
	if err != nil && fault.Away(err) && !a.cfg.Breaker.Hopeless(err) {
		return false
	}
	if err == nil {
		a.arrive(call, &reply)
	}
	a.lock()
	defer a.mu.Unlock()
	for l, s := range a.away {
		if s.count > 0 {
			a.watch(Event{What: Outlasted, N: int(s.count), Took: now.Sub(a.since), Limit: l})
		}
	}
	a.away = nil
	for _, k := range a.kinds {
		k.queue.Refresh(1)
		a.wants(k)
	}
	a.kick()
	return true
}
