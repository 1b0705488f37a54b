package world

import (
	"fmt"
	"time"
)

// provider is the API behind a limit. It counts the calls that are made, and knows which calls it would
// accept. Each kind of limit has its own.
type provider interface {
	// wait lets time pass. It returns how long the limit was not used, or how long the permits took that
	// are lost by now, if calls of that cost were waiting meanwhile.
	wait(until time.Duration, cost float64) time.Duration
	take(cost float64) error                       // a call is made
	done(madeAt time.Duration, cost, used float64) // a call is over that was made then and used this part of its cost
	has(cost float64) bool                         // whether it would accept a call now
	change(a, b float64)                           // another limit is in force; a and b are its numbers in the scripts
	pause(until time.Duration)
}

// paced is a token bucket. It may follow a change of its limit at any moment within follows. It refuses a
// call only if there is no moment with which it accepts all calls until then.
type paced struct {
	now       time.Duration
	changes   []pace
	tolerated time.Duration // how early calls may be relative to each other, because of network jitter

	// stored is the most that waiting calls may count on: less than that is accepted in any case.
	stored float64
	paused time.Duration
}

// pace is a limit that is in force from a moment on.
type pace struct {
	at     time.Duration
	rate   float64 // permits per second
	burst  float64
	stored float64 // the most permits of a provider that follows this pace now
	gone   bool    // no provider follows it any more
}

const (
	// follows is how long a provider may take to follow a change of its limit: a horizon, and a little.
	follows = 520 * time.Millisecond

	// slack is how late the fleet may be in all before permits count as lost.
	slack = 30 * time.Millisecond
)

func newPaced(a, b float64, tolerated time.Duration) *paced {
	return &paced{changes: []pace{{rate: 1e6 / a, burst: b, stored: b}}, tolerated: tolerated, stored: b}
}

func (p *paced) wait(until time.Duration, _ float64) (lost time.Duration) {
	passed := (until - p.now).Seconds()
	rate, burst := p.least()
	switch {
	case p.paused > until:
		p.stored = 0
	case p.paused > p.now: // the pause ends with one permit
		p.stored = 1 + (until-p.paused).Seconds()*rate
	default:
		p.stored += passed * rate
	}
	if most := burst + slack.Seconds()*rate; p.stored > most {
		lost, p.stored = time.Duration((p.stored-most)/rate*float64(time.Second)), most
	}
	for k := range p.changes {
		c := &p.changes[k]
		if k+1 < len(p.changes) && p.changes[k+1].at+follows < until {
			c.gone = true
		}
		c.stored = min(c.burst, c.stored+passed*c.rate)
		if k > 0 && !p.changes[k-1].gone {
			c.stored = max(c.stored, min(c.burst, p.changes[k-1].stored))
		}
	}
	for len(p.changes) > 1 && p.changes[0].gone {
		p.changes = p.changes[1:]
	}
	p.now = until
	return lost
}

// least returns the rate and the burst that waiting calls can count on: changes take a horizon.
func (p *paced) least() (rate, burst float64) {
	rate, burst = p.changes[0].rate, p.changes[0].burst
	for _, c := range p.changes {
		rate, burst = min(rate, c.rate), max(burst, c.burst)
	}
	return rate, burst
}

func (p *paced) take(cost float64) error {
	p.stored -= cost
	possible, early := false, time.Duration(0)
	for k := range p.changes {
		c := &p.changes[k]
		if c.gone {
			continue
		}
		c.stored -= cost
		early = time.Duration(-c.stored / c.rate * 1e9)
		if early <= p.tolerated {
			possible = true
		} else if k+1 < len(p.changes) {
			c.gone = true
		}
	}
	if !possible {
		return fmt.Errorf("a call of %v is %v too early, and it tolerates %v", cost, early, p.tolerated)
	}
	return nil
}

// spend notes a call that is not judged. Waiting calls cannot count on its permits.
func (p *paced) spend(cost float64) { p.stored = max(0, p.stored-cost) }

// lacks returns how many permits the calls had too many that came too early.
func (p *paced) lacks() float64 {
	last := p.changes[len(p.changes)-1]
	return max(0, -last.stored-last.rate*p.tolerated.Seconds())
}

// store adds permits to the bucket.
func (p *paced) store(permits float64) {
	p.stored = max(p.stored, 0)
	for k := range p.changes {
		p.changes[k].stored += permits
	}
}

func (p *paced) done(_ time.Duration, cost, used float64) {
	for k := range p.changes {
		c := &p.changes[k]
		c.stored = min(c.burst, c.stored+max(0, cost-used))
	}
}

// has counts only permits that are there even if all calls were late by the slack.
func (p *paced) has(cost float64) bool {
	rate, _ := p.least()
	return p.paused <= p.now && p.stored >= cost+slack.Seconds()*rate
}

// change lets a provider follow another pace from now on, at the earliest. It keeps the permits that it has.
func (p *paced) change(a, b float64) {
	next := pace{at: p.now, rate: 1e6 / a, burst: b}
	if last := p.changes[len(p.changes)-1]; !last.gone {
		next.stored = max(0, min(b, last.stored))
	}
	p.changes = append(p.changes, next)
}

func (p *paced) pause(until time.Duration) { p.paused = until }
