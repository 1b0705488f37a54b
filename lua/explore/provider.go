package main

import (
	"fmt"
	"math"
	"slices"
)

// tolerated is how many micros too early a call may be: times are rounded.
const tolerated = 2

// provider is the API behind a limit. It judges calls when they are made, and does not know the queue.
type provider struct {
	kind string
	a, b float64
	tat  float64 // p, w: when all used permits have come back
	uses []use   // q, r: the uses that count
	held float64 // s: slots in use
	off  bool    // it no longer judges: nobody can know the usage that Redis has lost

	follows      float64 // when another limit is in force; 0: none is planned
	nextA, nextB float64
}

type use struct{ at, cost float64 }

// judge accepts a call, or returns an error that says why not. A pause ended at a moment: after it there is
// one permit.
func (p *provider) judge(at, cost, paused float64) error {
	p.follow(at)
	if p.off {
		return nil
	}
	switch p.kind {
	case "p":
		free := max(p.tat, at-p.b*p.a)
		if paused > 0 {
			free = max(free, min(paused, at)-p.a)
		}
		p.tat = free + cost*p.a
		if early := p.tat - at; early > tolerated {
			return fmt.Errorf("it comes %.0f micros too early", early)
		}
	case "w": // a call is due when the calls before it are paid for
		early := p.tat - at
		p.tat = max(p.tat, at) + cost*p.a
		if early > tolerated {
			return fmt.Errorf("it comes %.0f micros too early", early)
		}
	case "s":
		if p.held += cost; p.held > p.a {
			return fmt.Errorf("%v of %v slots are in use", p.held, p.a)
		}
	case "q", "r":
		used := cost
		p.uses = slices.DeleteFunc(p.uses, func(u use) bool { return !p.counts(u, at) })
		for _, u := range p.uses {
			used += u.cost
		}
		if p.uses = append(p.uses, use{at, cost}); used > p.a {
			return fmt.Errorf("%v of %v permits are used in its window", used, p.a)
		}
	}
	return nil
}

// counts reports whether permits that were used before still count.
func (p *provider) counts(u use, at float64) bool {
	if p.kind == "q" {
		return math.Floor(u.at/window) == math.Floor(at/window)
	}
	return u.at > at-p.b+tolerated
}

// change puts another limit in force from a moment on. By then the turns granted before are over.
func (p *provider) change(a, b, at float64) {
	p.follow(at)
	p.follows, p.nextA, p.nextB = max(at, p.follows), a, b
}

func (p *provider) follow(now float64) {
	if p.follows == 0 || now <= p.follows {
		return
	}
	if p.tat < p.follows && p.kind == "p" { // the bucket keeps its permits
		p.tat = p.follows - min((p.follows-p.tat)/p.a, p.b, p.nextB)*p.nextA
	}
	p.a, p.b, p.follows = p.nextA, p.nextB, 0
}
