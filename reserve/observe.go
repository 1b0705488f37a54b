package reserve

import (
	"time"

	"github.com/fleetpace/fleetpace/internal/observe"
)

// observe tells a test that looks of a turn that a call was given now, which is the moment
// at which it was found usable.
func (l *line) observe(t *ticket, now time.Time) {
	if observe.On() {
		observe.Report(l.core.observed(l.key, t, now))
	}
}

// unobserve tells that nobody uses a turn which was given: its call had left.
func (l *line) unobserve(t *ticket) {
	if observe.On() {
		turn := l.core.observed(l.key, t, time.Now())
		turn.Back = true
		observe.Report(turn)
	}
}

// observe is line.observe for a call that does not wait.
func (l *Limiter) observe(t *ticket, now time.Time) {
	if observe.On() {
		observe.Report(l.core.observed(l.key, t, now))
	}
}

func (c *core) observed(key string, t *ticket, now time.Time) observe.Turn {
	turn := observe.Turn{
		Prefix: c.cfg.Prefix, Limit: c.name(key), Cost: t.cost, Epoch: t.epoch, Number: t.number,
		Given: now, Late: now.Sub(t.due) + t.since, Slack: t.slack,
	}
	if t.kept {
		turn.ID = t.id
	}
	if t.seen > 0 {
		turn.Told = time.UnixMicro(t.seen)
		turn.Turn = turn.Told.Add(t.due.Sub(t.given) - t.since)
	}
	return turn
}

// observe is line.observe for a call that needs several limits.
func (g *guest) observe(t *jointTurn, now time.Time) {
	if !observe.On() {
		return
	}
	for i, l := range g.joint.limits {
		turn := observe.Turn{
			Prefix: l.core.cfg.Prefix, Limit: l.String(), Cost: g.costs[i],
			Given: now, Late: now.Sub(t.due) + t.since, Slack: t.slack,
		}
		if t.micros > 0 {
			turn.Turn = time.UnixMicro(t.micros)
			turn.Told = turn.Turn.Add(t.given.Sub(t.due))
			turn.Epoch, turn.Number = t.numbers[i].epoch, t.numbers[i].number
		}
		observe.Report(turn)
	}
}
