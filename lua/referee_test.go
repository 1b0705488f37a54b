package lua

import (
	"fmt"
	"math"
	"slices"
)

// referee is a strict provider of each limit. It judges calls at the real moments at which
// they are made, in order, and bears a microsecond, as replies round.
type referee struct {
	events []event
}

const bears = 1.5 // micros

type event struct {
	at    float64 // real micros
	limit int
	// One of these.
	cost   float64 // a call
	of     int     // its number
	change func(*bucket)
	done   bool // it holds its slots no longer
}

// bucket judges a limit of any kind.
type bucket struct {
	kind string
	a, b float64
	tat  float64
	log  []event
	held float64
	off  bool // nothing is judged: a quota can not know what Redis lost
}

func (b *bucket) judge(e event) error {
	switch b.kind {
	case "p", "w":
		burst := b.b
		if b.kind == "w" {
			burst = 1
		}
		base := max(b.tat, e.at-burst*b.a)
		cost := e.cost
		if b.kind == "w" { // a call is due when those before it are paid for
			if b.tat > e.at+bears {
				return fmt.Errorf("%v micros too early", b.tat-e.at)
			}
			b.tat = max(b.tat, e.at) + cost*b.a
			return nil
		}
		if base+cost*b.a > e.at+bears {
			return fmt.Errorf("%v micros too early", base+cost*b.a-e.at)
		}
		b.tat = base + cost*b.a
	case "q":
		window := math.Floor(e.at / windowMicros)
		used := e.cost
		for _, before := range b.log {
			if math.Floor(before.at/windowMicros) == window {
				used += before.cost
			}
		}
		b.log = append(b.log, e)
		if used > b.a {
			return fmt.Errorf("%v of %v permits in a window", used, b.a)
		}
	case "s":
		if e.done {
			b.held -= e.cost
			return nil
		}
		if b.held += e.cost; b.held > b.a {
			return fmt.Errorf("%v of %v slots", b.held, b.a)
		}
	case "r":
		used := e.cost
		for _, before := range b.log {
			if before.at > e.at-b.b+bears {
				used += before.cost
			}
		}
		b.log = append(b.log, e)
		if used > b.a {
			return fmt.Errorf("%v of %v permits in %v micros", used, b.a, b.b)
		}
	}
	return nil
}

// verdict is what a history did wrong.
func (r *referee) verdict(buckets []*bucket) error {
	slices.SortStableFunc(r.events, func(a, b event) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	for _, e := range r.events {
		b := buckets[e.limit]
		switch {
		case e.change != nil:
			e.change(b)
		case b.off:
		default:
			if err := b.judge(e); err != nil {
				return fmt.Errorf("limit %d (%s %v %v) refuses a call of %v at %.0f: %w", e.limit, b.kind, b.a, b.b, e.cost, e.at, err)
			}
		}
	}
	return nil
}
