package lua

import (
	"math"
	"math/rand/v2"

	"github.com/fleetpace/fleetpace/internal/model"
)

// trouble is what may happen to Redis in a history.
type trouble struct {
	Back       bool // its clock steps back
	Forward    bool // its clock steps forward
	Lost       bool // it loses its data, and the processes remember the line
	Rollback   bool // it loses what happened last
	Forgotten  bool // nobody remembers anything
	Away       bool // processes lose the connection, and spend permits of their own
	RateChange bool
	RateSet    bool // for all, by one of them
}

func anyTrouble(rng *rand.Rand) trouble {
	switch rng.IntN(30) {
	case 0, 1:
		return trouble{Back: true}
	case 2, 3:
		return trouble{Lost: true}
	case 4:
		return trouble{Back: true, Lost: true}
	case 5, 6:
		return trouble{Forward: true}
	case 7:
		return trouble{Forward: true, Lost: true}
	case 8:
		return trouble{Lost: true, Forgotten: true}
	case 9:
		return trouble{RateChange: true}
	case 10:
		return trouble{Rollback: true, Forgotten: true}
	case 11, 12, 13:
		return trouble{Rollback: true}
	case 14:
		return trouble{Rollback: true, Back: true, Lost: true}
	case 15:
		return trouble{Rollback: true, Forward: true}
	case 16, 17, 18:
		return trouble{Away: true}
	case 19:
		return trouble{Away: true, Lost: true}
	case 20:
		return trouble{Away: true, Forward: true, Back: true}
	case 26, 27:
		return trouble{RateSet: true}
	case 28:
		return trouble{RateSet: true, Lost: true}
	case 29:
		return trouble{RateSet: true, Back: true, Forward: true, Rollback: true}
	default:
		return trouble{}
	}
}

// damage is what the provider has to bear from the troubles: see judge.
type damage struct {
	jumps   float64 // micros that the clock stepped forward and the line did not follow, in all
	jumped  float64 // the same, and nobody called since
	stepped bool    // it stepped forward, and nobody has seen yet whether the keys expired
	slow    float64 // micros that the clock stepped back and no script could see, in all
	seenAt  int64   // true time, and Redis's clock, at the last call that wrote
	seen    int64

	given     float64 // permits, in all
	forgotten float64 // permits of IDs that were used anew, in all
	lost      bool    // data is lost, and nobody called since
	back      bool    // the state was rolled back, and nobody called since
	dumped    float64 // permits that were given or forgotten before the dump
	losses    int     // data that was lost with nobody knowing
	unknown   float64 // permits that were given and the line does not know of, in all

	owed     float64 // permits that were spent and will be charged
	repaying []debt  // those that were charged: the line lets that much time pass
	mostOwed float64
	unpaid   float64 // permits that were spent and may not be charged

	unheard float64 // permits whose turns moved, and their holders did not hear
}

// touch notes a call that writes. A clock that went back, but not to before the
// last such call, can not be told from one that is slow; nor one that went ahead
// by no more than a second. A cancel makes no state where there is none: what was
// lost is restored by the call after it.
func (h *history) touch(c model.Caller, missed float64, makes bool) {
	clock, before := h.clock(), h.seen
	if passed := clock - h.seen; h.seen > 0 && passed >= 0 {
		h.slow += float64(max(0, h.now-h.seenAt-passed))
	}
	h.seenAt, h.seen = h.now, clock
	if !makes {
		return
	}
	if unseen := min(float64(clock-before), float64(clock)-c.ClockMicros); c.ClockMicros == 0 || unseen <= 1e6 {
		h.jumps += h.jumped
	}
	h.jumped = 0

	switch sinceDump := h.given + h.forgotten - h.dumped; {
	case h.lost:
		h.lostTo(c, missed)
	case h.back && c.Epoch > 0 && c.Member != "":
		h.unknown += missed + h.forgotten
	case h.back:
		h.unknown += max(sinceDump, missed)
	}
	h.lost, h.back = false, false
}

// lostTo notes that a caller made a new state in the place of one that was in use.
func (h *history) lostTo(c model.Caller, missed float64) {
	if c.Epoch > 0 {
		h.unknown += missed
	} else {
		h.losses++
	}
}

// debt is what was charged. Tickets that were final before keep their moment, so
// it is repaid when the line has come to the end of them.
type debt struct {
	permits float64
	until   float64 // true time
}

func (h *history) owe(permits float64) {
	h.owed += permits
	all := h.owed
	for _, d := range h.repaying {
		if d.until > float64(h.now) {
			all += d.permits
		}
	}
	h.mostOwed = max(h.mostOwed, all)
}

func (h *history) repay(spent, charged, until float64) {
	h.owed -= spent
	h.unpaid += spent - charged
	h.repaying = append(h.repaying, debt{charged, until})
}

// befall lets one of the history's troubles happen.
func (h *history) befall() {
	step := int64(math.Exp(h.rng.Float64() * math.Log(20*h.limit.IntervalMicros*float64(h.limit.Burst+1))))
	switch h.rng.IntN(4) {
	case 0:
		step = 1 + h.rng.Int64N(86400e6)
	case 1:
		step = 1 + h.rng.Int64N(600e6)
	}
	var kinds []func()
	if h.trouble.Back {
		kinds = append(kinds, func() { h.offset -= step; h.counts["back"]++ })
	}
	if h.trouble.Forward {
		kinds = append(kinds, func() { h.offset += step; h.jumped += float64(step); h.stepped = true; h.counts["ahead"]++ })
	}
	if h.trouble.Lost {
		kinds = append(kinds, h.lose)
	}
	if h.trouble.Rollback {
		kinds = append(kinds, h.keepAndRollBack)
	}
	if h.trouble.RateSet {
		kinds = append(kinds, h.setLimit, h.setLimit)
	}
	if h.trouble.RateChange {
		kinds = append(kinds, h.changeRate)
	}
	if h.trouble.Away && !h.allAway() {
		kinds = append(kinds, h.leave)
	}
	if len(kinds) == 0 {
		h.take()
		return
	}
	kinds[h.rng.IntN(len(kinds))]()
	// A state is told from an earlier one by the moment at which it was made.
	for h.epochs[h.clock()] {
		h.now++
	}
}

// lose deletes the keys.
func (h *history) lose() {
	h.player.lose(h.clock())
	h.lost, h.back = true, false
	h.counts["losses"]++
	for h.epochs[h.clock()] {
		h.now++
	}
	if h.rng.IntN(2) == 0 {
		// Somebody gives back, by number, what the line before had given.
		old := h.tickets
		h.take()
		p, _ := h.ready()
		for _, t := range old {
			if t.state == held && !t.byID && t.cost <= h.limit.Burst {
				t.state = cancelled
				h.giveBack(p, false, model.Cancellation{Cost: t.cost, Epoch: t.epoch, Number: t.number})
				break
			}
		}
	}
}

// keepAndRollBack keeps what the keys hold, lets a few calls happen, and brings it
// back.
func (h *history) keepAndRollBack() {
	for h.lost || h.back {
		h.take() // what is kept is a state that somebody has seen
	}
	h.player.dump(h.clock())
	h.dumped = h.given + h.forgotten
	h.now++ // no process has two replies in one microsecond
	for range 1 + h.rng.IntN(4) {
		switch h.rng.IntN(4) {
		case 0:
			h.claim()
		case 1:
			h.cancel()
		default:
			h.take()
		}
		h.advance()
	}
	h.player.rollback(h.clock())
	for _, p := range h.processes {
		p.sent = nil // the connections ended
	}
	h.lost, h.back = false, true
	h.counts["rollbacks"]++
}

// changeRate changes the interval, and may lower the burst.
func (h *history) changeRate() {
	h.limit.IntervalMicros = h.interval()
	if h.rng.IntN(3) == 0 {
		h.limit.Burst = 1 + h.rng.Int64N(h.limit.Burst)
	}
	for _, p := range h.processes { // copies would bring the rate of before
		p.pending, p.sent = nil, nil
	}
	h.take() // the line changes at the first call with the new rate
}
