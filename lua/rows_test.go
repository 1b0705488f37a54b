package lua

import (
	"math"
	"strings"

	"github.com/fleetpace/fleetpace/internal/model"
)

// quickly is a take that goes by quick first. Where quick gives nothing, or its
// reply is lost, it is the ordinary take under the same serial.
type quickly struct {
	row    model.Row
	caller model.Caller // as it was sent
	sent   bool
	settle func(given model.Given, lost bool)
}

// mayBeQuick lets a take go by quick first, in some cases. Of a ticket that is kept
// nobody could ask again.
func (h *history) mayBeQuick(m *message, tickets []*ticket, requests []model.Request, bound float64) {
	for _, r := range requests {
		if r.Keep {
			return
		}
	}
	if bound < 0 || h.rng.IntN(5) == 0 {
		return
	}
	row := model.Row{SlackMicros: model.LongestMicros}
	for _, r := range requests {
		row.Permits += r.Cost
		longest := bound
		if r.MaxWaitMicros >= 0 {
			longest = min(bound, r.MaxWaitMicros)
		}
		row.SlackMicros = min(row.SlackMicros, longest-float64(row.Permits)*h.limit.IntervalMicros)
	}
	if h.rng.IntN(2) == 0 {
		row.Extra = 1 + h.rng.Int64N(h.limit.Burst)
		row.LastingMicros = math.Ceil(h.rng.Float64() * 0.7 * float64(h.limit.Burst) * h.limit.IntervalMicros)
	}
	m.quickly = &quickly{row: row, settle: func(given model.Given, lost bool) {
		h.settle(m.from, tickets, h.rowReply(m, row, requests, given), lost, func(*ticket) bool { return false })
		if !lost {
			h.keepExtra(m.from, m.quickly.caller.Epoch, row, given)
		}
	}}
}

// rowReply is what a caller of quick works out.
func (h *history) rowReply(m *message, row model.Row, requests []model.Request, given model.Given) model.Reply {
	wait := func(permits int64) int64 {
		return int64(math.Ceil(float64(given.DueMicros) + float64(permits)*h.limit.IntervalMicros))
	}
	reply := model.Reply{
		Epoch: m.quickly.caller.Epoch, SeenMicros: given.SeenMicros,
		ReachMicros: wait(given.Permits), Live: m.quickly.caller.Live, Idle: given.Idle,
	}
	var permits int64
	for _, r := range requests {
		permits += r.Cost
		reply.Grants = append(reply.Grants, model.Grant{
			Status: model.Final, Number: given.Before + permits, WaitMicros: max(0, wait(permits)),
		})
	}
	return reply
}

// keepExtra lets a process use its extra permits at any time while they last.
func (h *history) keepExtra(p *process, epoch int64, row model.Row, given model.Given) {
	for n := given.Before + row.Permits + 1; n <= given.Before+given.Permits; n++ {
		h.counts["extra"]++
		h.give(p, 1)
		t := h.newTicket()
		t.cost, t.keep = 1, false
		t.state, t.epoch, t.number = held, epoch, n
		t.callAt = h.now
		if longest := int64(row.LastingMicros); !h.trouble.RateChange && !h.trouble.RateSet {
			t.callAt += min(longest, h.rng.Int64N(2*longest+1))
		}
	}
}

// quick sends a take by quick, and reports whether it gave something.
func (h *history) quick(m *message, read bool) bool {
	q := m.quickly
	if q == nil || !q.sent && !h.callerOfQuick(m) {
		return false
	}
	q.sent = true
	given := h.player.quick(h.clock(), h.limit, q.caller, q.row)
	if given.Before < 0 {
		h.counts["not_plain"]++
		return false
	}
	h.counts["quicks"]++
	h.touch(m.caller, m.missed, true)
	reply := h.rowReply(m, q.row, nil, given)
	h.noteReply(reply, m.caller, m.missed)
	h.answer(m, reply, read, func(lost bool) { q.settle(given, lost) })
	return true
}

// callerOfQuick fills in who the caller is, if it had a reply in the last ten
// seconds, or is of a process that had.
func (h *history) callerOfQuick(m *message) bool {
	const recently = 30e6
	c := m.caller
	c.LastSerial = m.from.lastSerial
	from := m.from
	if from.epoch == 0 {
		stem, _, _ := strings.Cut(from.name, "/")
		for _, p := range h.processes {
			if other, _, _ := strings.Cut(p.name, "/"); other == stem && p.epoch > 0 && !p.away {
				from = p
			}
		}
		known := h.caller(from, 0)
		c.Epoch, c.ClockMicros, c.Live = known.Epoch, known.ClockMicros, known.Live
	}
	m.quickly.caller = c
	return c.Epoch > 0 && h.now-from.tookAt <= recently
}
