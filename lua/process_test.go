package lua

import (
	"math"

	"github.com/fleetpace/fleetpace/internal/model"
)

// process is a member of one of those that share the limit, with what it remembers
// of the line. It learns nothing from a reply that was lost.
type process struct {
	name    string // empty: it can not be told from others
	epoch   int64  // 0: it never had a reply
	seen    int64  // on Redis's clock
	seenAt  int64  // the same in true time
	reachAt float64
	idle    int64
	live    int64 // as it was last told

	serial     int64
	lastSerial int64 // of the call whose reply it had last
	tookAt     int64 // true time at which it had a reply that was not of a quick

	pending *message // the last numbered call, when its reply was lost
	sent    []*message
	missed  float64 // permits that others were given since its last reply

	away     bool // it can not reach Redis
	awayFrom int64
	spent    int64
}

// message is a call of a process, to be carried out once or several times.
type message struct {
	from   *process
	serial int64
	// run carries the call out, and returns what the process does then.
	run     func(m *message, c model.Caller) (model.Reply, func(lost bool))
	must    bool // it is repeated until there is a reply
	cancels bool
	bills   []model.Charge // as they were sent, if it is a charge
	quickly *quickly       // it goes by quick first, if it is such a take

	caller model.Caller // as it was sent first
	missed float64      // up to then
	given  float64      // by the line, up to then
}

// ready picks a process that can reach Redis now, and whether it numbers its next
// call. If it does, a numbered call whose reply was lost is repeated before, or
// never.
func (h *history) ready() (p *process, numbered bool) {
	for {
		if p = h.processes[h.rng.IntN(len(h.processes))]; !p.away {
			break
		}
	}
	numbered = p.name != "" && h.rng.IntN(4) > 0
	if numbered {
		h.clear(p)
	}
	return p, numbered
}

// clear repeats the last call of a process until there is a reply, or gives it up.
func (h *history) clear(p *process) {
	for p.pending != nil && (p.pending.must || h.rng.IntN(5) > 0) {
		h.repeat(p.pending)
	}
	p.pending = nil
}

// caller is what a process sends along.
func (h *history) caller(p *process, serial int64) model.Caller {
	c := model.Nobody
	c.Member, c.Serial = p.name, serial
	if h.allKnow && p.epoch > 0 {
		c.Epoch, c.SeenMicros, c.Live = p.epoch, p.seen, p.live
		c.ReachMicros = max(p.reachAt-float64(h.now), -model.LongestMicros)
		c.LaterMicros = float64(h.rng.IntN(2) * h.rng.IntN(1_000_000))
		c.ClockMicros = float64(p.seen + h.now - p.seenAt)
	}
	return c
}

// send lets a process make a call.
func (h *history) send(numbered bool, m *message) {
	p := m.from
	if numbered {
		p.serial++
		m.serial = p.serial
	}
	m.caller = h.caller(p, m.serial)
	m.missed, m.given = p.missed, h.given
	if !h.quick(m, true) {
		h.deliver(m, m.caller, p.missed, true)
	}
	if m.serial > 0 {
		p.sent = append(p.sent, m)
	}
}

// repeat sends a call again, with what the process remembers now.
func (h *history) repeat(m *message) {
	if m.cancels && m.caller.Epoch == 0 {
		m.from.pending = nil // a process that remembers nothing can not say what it cancels
		return
	}
	h.counts["repeats"]++
	h.deliver(m, h.caller(m.from, m.serial), m.from.missed, true)
}

// copied lets an old copy of a call come to Redis, whose reply nobody reads.
func (h *history) copied(m *message) {
	if m.cancels && m.caller.Epoch == 0 {
		return
	}
	h.counts["copies"]++
	if m.quickly != nil && m.quickly.sent && h.rng.IntN(2) == 0 && h.quick(m, false) {
		return
	}
	h.deliver(m, m.caller, m.missed+h.given-m.given, false)
}

func (h *history) deliver(m *message, c model.Caller, missed float64, read bool) {
	h.touch(c, missed, !m.cancels)
	reply, settle := m.run(m, c)
	h.noteReply(reply, c, missed)
	if h.answer(m, reply, read, settle) && !m.cancels {
		m.from.tookAt = h.now
	}
}

// answer brings a reply to the process, or loses it.
func (h *history) answer(m *message, reply model.Reply, read bool, settle func(lost bool)) (came bool) {
	p := m.from
	switch {
	case reply.Stale:
		h.counts["stale"]++
	case !read:
	case h.rng.IntN(8) == 0 || (m.bills != nil || m.cancels) && h.rng.IntN(2) == 0:
		settle(true)
		if m.serial > 0 {
			p.pending = m
		}
	default:
		settle(false)
		if m.serial > 0 {
			p.pending = nil
		}
		if reply.Epoch > 0 {
			p.epoch, p.seen, p.seenAt, p.idle = reply.Epoch, reply.SeenMicros, h.now, reply.Idle
			p.live = reply.Live
			p.lastSerial = m.serial
			p.reachAt = float64(h.now + reply.ReachMicros)
			p.missed = 0
		}
		return true
	}
	return false
}

func (h *history) noteReply(reply model.Reply, c model.Caller, missed float64) {
	if reply.Epoch == 0 {
		return
	}
	h.epochs[reply.Epoch] = true
	h.noteLimit(reply)
	h.reachAt = float64(h.now + reply.ReachMicros)
	if made := reply.Epoch == reply.SeenMicros; made && h.stepped {
		h.lostTo(c, missed)
	}
	h.stepped = false
}

// give notes permits that a process was given.
func (h *history) give(to *process, permits int64) {
	h.given += float64(permits)
	for _, p := range h.processes {
		if p != to {
			p.missed += float64(permits)
		}
	}
}

// meddle lets a process do what has to do with earlier calls or with being away,
// in some cases.
func (h *history) meddle() bool {
	p := h.processes[h.rng.IntN(len(h.processes))]
	switch n := h.rng.IntN(100); {
	case p.away && n < 40:
		h.spend(p)
	case p.away && n < 70 || h.allAway():
		h.comeBack(p)
	case p.away:
		return false
	case p.pending != nil && p.pending.bills != nil && n < 40:
		h.spend(p) // it has no answer yet
	case p.pending != nil && n < 80:
		h.repeat(p.pending)
	case len(p.sent) > 0 && n < 6:
		h.copied(p.sent[max(0, len(p.sent)-1-h.rng.IntN(3))])
	default:
		return false
	}
	return true
}

func (h *history) allAway() bool {
	for _, p := range h.processes {
		if !p.away {
			return false
		}
	}
	return true
}

// leave cuts a process off from Redis.
func (h *history) leave() {
	p, _ := h.ready()
	h.clear(p)
	p.away, p.awayFrom, p.spent = true, h.now, 0
	h.counts["aways"]++
	if h.allAway() && h.rng.IntN(3) == 0 {
		h.comeBack(p)
	}
}

// spend lets a process call without a turn of the line.
func (h *history) spend(p *process) {
	cost := 1 + h.rng.Int64N(h.limit.Burst)
	p.spent += cost
	h.owe(float64(cost))
	h.calls = append(h.calls, call{h.now, cost})
	h.counts["calls"]++
}

// comeBack lets a process charge what it spent. While it has no reply it spends
// more, and says so when it asks again. The copies may be carried out in any order.
func (h *history) comeBack(p *process) {
	p.away = false
	h.counts["charges"]++
	var settled, charged int64 // at least
	h.send(p.name != "", &message{from: p, must: true, bills: []model.Charge{}, run: func(m *message, c model.Caller) (model.Reply, func(bool)) {
		what := h.bill(p)
		if len(m.bills) > 0 && (p.pending != m || h.rng.IntN(3) == 0) {
			what = m.bills[h.rng.IntN(len(m.bills))]
			h.counts["old_bills"]++
		}
		m.bills = append(m.bills, what)
		reply := h.player.charge(h.clock(), h.limit, c, what)
		if spent := what.Spent - settled; spent > 0 && !reply.Stale {
			now := max(charged, min(what.Most, charged+min(what.Least, spent)))
			h.repay(float64(spent), float64(now-charged), float64(h.now+reply.ReachMicros))
			h.give(nil, spent) // for all but those who saw the reply, and so for p
			settled, charged = what.Spent, now
		}
		return reply, func(bool) {}
	}})
}

func (h *history) bill(p *process) model.Charge {
	what := model.Charge{Spent: p.spent, Idle: p.idle, AwayMicros: float64(h.now - p.awayFrom), Most: p.spent + h.rng.Int64N(3)}
	switch h.rng.IntN(4) {
	case 0:
		what.Least = h.rng.Int64N(p.spent + 1)
	case 1:
		what.Most = h.rng.Int64N(p.spent + 1)
	default:
		what.Least = p.spent
	}
	if h.rng.IntN(2) == 0 {
		what.GraceMicros = math.Floor(h.limit.IntervalMicros * h.rng.Float64() * 20)
	}
	return what
}
