package engine

import (
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// This file says which calls a process lets through while Redis is unreachable, and what they have spent.

// serve lets calls of a line through as Config.Away says, and sets the alarm for the next one.
func (e *Engine) serve(l *line, now time.Time) {
	e.refuseOtherKind(l)
	switch {
	case e.cfg.Away == AwayFail:
		l.failAll(e.cfg.Errors.Away)
		return
	case e.cfg.Away == AwayWait, e.outage.tells:
		return
	}
	for len(l.waiting) > 0 {
		if at := e.localTurn(l, now); at.After(now) {
			if l.need.Now {
				l.failAll(&NotNow{Wait: at.Sub(now)})
			} else {
				e.alarms.set(&l.alarm, at)
			}
			return
		}
		pace := e.outage.spent[l.need.Limit].pace
		l.give(&Turn{Due: now, Until: now.Add(alone), Pace: pace, Later: now.Sub(l.oldest()) >= asking}, now)
	}
}

// localTurn returns when the next call of a line may be made. If it may be made now, its permits are spent.
func (e *Engine) localTurn(l *line, now time.Time) time.Time {
	at := now
	for _, p := range l.parts {
		if p.Limit.HasSlots() && e.cfg.Away == AwayLocal { // nobody knows who holds slots
			return now.Add(probing)
		}
		at = later(at, e.rests[p.Limit.Keys[0]])
		s := e.outage.spent[p.Limit]
		if s == nil {
			s = &spent{}
			if e.cfg.Away == AwayLocal {
				perSecond, burst := e.cfg.Share(p.Limit)
				s.pace, s.share = perSecond, newShare(perSecond, burst, e.outage.began.Add(e.clock.times(now).horizon))
			}
			e.outage.spent[p.Limit] = s
		}
		rest := s.rest(p.Limit, now, p.Cost) // it begins the window of now, also where calls are not paced
		if s.share == nil {
			continue
		}
		at = later(at, now.Add(rest))
		if due := s.share.at(now, p.Cost); due.After(at) {
			at = due
			s.share.planned = due
		}
	}
	if at.After(now) {
		return at
	}
	for _, p := range l.parts {
		s := e.outage.spent[p.Limit]
		s.spend(p.Limit, now, p.Cost)
		if s.share != nil {
			s.share.take(now, p.Cost)
		}
	}
	return now
}

// spent is what was spent of a limit without Redis.
type spent struct {
	share *share  // nil: calls are not paced
	pace  float64 // the permits per second of the share
	count int64

	// These are for a quota or a rolling limit. ends is the time of Redis at which the window ends, and recent
	// is what was spent in it.
	ends   int64
	recent []spending
}

// spending is permits that were spent without Redis, at about the same time.
type spending struct {
	at      time.Time
	permits int64
}

// grains is the number of parts of a window: permits that were spent in one part are kept as one spending.
const grains = 16

// enter begins another window of a limit, if the old one is over, and forgets what no longer counts.
func (s *spent) enter(l *wire.Limit, now time.Time, ends int64) {
	window := l.Window()
	if window == 0 && s.ends != ends {
		s.ends, s.recent = ends, nil
	}
	for len(s.recent) > 0 && window > 0 && now.Sub(s.recent[0].at) > window {
		s.recent = s.recent[1:]
	}
}

// spend notes that permits of a limit were spent.
func (s *spent) spend(l *wire.Limit, now time.Time, permits int64) {
	s.count += permits
	if !l.Windowed() {
		return
	}
	last, window := len(s.recent)-1, l.Window()
	if last < 0 || window > 0 && now.Sub(s.recent[last].at) > window/grains {
		s.recent = append(s.recent, spending{at: now, permits: permits})
		return
	}
	s.recent[last].permits += permits
	s.recent[last].at = now
}

// inWindow returns the permits that were spent in the window of now.
func (s *spent) inWindow() (sum int64) {
	for _, r := range s.recent {
		sum += r.permits
	}
	return sum
}

// rest returns how long no permits of a limit are available, because its window is used up. A window is used up
// when the process has spent its part of what was left by the last reply.
func (s *spent) rest(l *wire.Limit, now time.Time, cost int64) time.Duration {
	left, ends, after, known := l.Left(now)
	if l.Windowed() {
		s.enter(l, now, ends)
	}
	if !known || s.inWindow()+cost <= left/max(1, l.Name.Alive.Load()) {
		return 0
	}
	return after
}

const (
	punctual = 20 * time.Millisecond // an alarm that is late by up to this counts as punctual
	longest  = 36525 * 24 * time.Hour
)

// share paces the calls of one limit in this process while Redis is unreachable. Its bucket begins empty.
type share struct {
	limiter *rate.Limiter
	burst   int
	start   time.Time // no permit is taken before: until then, turns that Redis has given are used
	planned time.Time // when the next call may be let through; zero: at any time
}

func newShare(perSecond float64, burst int, start time.Time) *share {
	limiter := rate.NewLimiter(rate.Limit(perSecond), burst)
	limiter.AllowN(start, burst)
	return &share{limiter: limiter, burst: burst, start: start}
}

// at returns when n permits are available. If a call costs more than the bucket of the share holds, the bucket
// grows for it.
func (s *share) at(now time.Time, n int64) time.Time {
	now = later(now, s.start)
	if burst := max(s.burst, int(n)); burst != s.limiter.Burst() {
		s.limiter.SetBurstAt(now, burst)
		s.start = now // taking permits from before that would refill them twice
	}
	short := float64(n) - s.limiter.TokensAt(now)
	if short <= 0 {
		return now
	}
	nanos := math.Ceil(short / float64(s.limiter.Limit()) * float64(time.Second))
	return now.Add(time.Duration(min(nanos, float64(longest))))
}

// take uses n permits. An alarm that is a little late does not make the next call later.
func (s *share) take(now time.Time, n int64) {
	if late := now.Sub(s.planned); late > 0 && late <= punctual {
		now = s.planned
	}
	s.planned = time.Time{}
	s.limiter.ReserveN(later(now, s.start), int(n))
}

// debt returns how many permits of the bucket are in use and not refilled yet.
func (s *share) debt(now time.Time) int64 {
	return int64(math.Ceil(max(0, float64(s.burst)-s.limiter.TokensAt(later(now, s.start)))))
}
