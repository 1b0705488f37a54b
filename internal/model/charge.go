package model

import (
	"math"
	"slices"
)

// Charge says what a process did that could not reach the line.
type Charge struct {
	Spent       int64   // permits that it used
	Least       int64   // of these, what is charged in any case
	Idle        int64   // as the last reply said
	AwayMicros  float64 // for how long it had no answer
	GraceMicros float64 // after an outage of all, nothing is due before
	Most        int64   // permits that are charged
}

// bill is what the copies of one charge settled.
type bill struct {
	spent   int64 // permits
	charged int64 // of these, how many the line paid for
}

// Charge lets the line pay for what a process used without it. A charge that is
// repeated settles what was spent since.
func (l *Line) Charge(now int64, limit Limit, c Caller, what Charge) Reply {
	if l.stale(c) {
		return Reply{Stale: true}
	}
	l.upToNow(now, limit, c)
	var before bill
	if l.call.replay {
		before = l.members[c.Member].bill
	}
	settled := l.charge(c, what, before)
	l.sign(c, nil)
	if c.Member != "" && c.Serial > 0 {
		own := l.members[c.Member]
		own.bill = settled
		l.members[c.Member] = own
	}
	return l.reply(nil)
}

func (l *Line) charge(c Caller, what Charge, settled bill) bill {
	allAway := l.call.fresh || float64(l.call.quiet) > what.AwayMicros/2

	// Who waits could not claim: their numbers are late, the first is due now.
	now := float64(l.seen)
	if first := l.foremost(); now > l.Due(first)+l.fillMicros() {
		late := math.Ceil(now - l.Due(first+1))
		l.shift(late)
		l.unused(math.Floor(late / l.limit.IntervalMicros))
	}

	// Permits that nobody used since the process was last here pay first.
	var before int64
	if c.Epoch == l.call.epochRead {
		before = what.Idle
	}
	spent := max(0, what.Spent-settled.spent)
	paid := min(max(0, l.idle-before), spent)
	l.idle -= paid
	debt := min(max(0, what.Most-settled.charged), max(min(what.Least, spent), spent-paid))
	if left := l.payWithNumbers(debt); left > 0 {
		l.shift(float64(left) * l.limit.IntervalMicros)
	}

	if allAway && what.GraceMicros > 0 {
		l.resume = up(now + min(what.GraceMicros, LongestMicros))
		l.floor = max(l.floor, l.final)
		l.hold()
	}
	return bill{settled.spent + spent, settled.charged + debt}
}

// payWithNumbers lets numbers before the final mark that nobody claimed pay, which
// the line would lose when it moves. It returns what is left to pay.
func (l *Line) payWithNumbers(debt int64) int64 {
	const most = 64 // of a list
	for _, list := range []*[]Ticket{&l.free, &l.waiting} {
		for range most {
			if debt == 0 {
				break
			}
			if list == &l.waiting {
				l.loseDead()
			} else {
				l.free = slices.DeleteFunc(l.free, l.Dead)
			}
			if len(*list) == 0 || (*list)[0].Number > l.final {
				break
			}
			t := (*list)[0]
			if list == &l.waiting {
				l.lose(t)
			} else {
				l.free = slices.Delete(l.free, 0, 1)
			}
			part := min(t.Cost, debt)
			if part < t.Cost {
				l.free = insert(l.free, Ticket{Number: t.Number, Cost: t.Cost - part})
			}
			debt -= part
		}
	}
	return debt
}
