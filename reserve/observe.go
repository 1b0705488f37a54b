package reserve

import (
	"time"

	"github.com/fleetpace/fleetpace/internal/asker"
	"github.com/fleetpace/fleetpace/internal/observe"
)

// report tells a test that looks of a turn that a call of some limits uses now.
func report(need *asker.Need, t *asker.Turn, limits ...*Limiter) {
	observed(need, t, false, limits)
}

// unused tells it that the call of a turn was not made.
func unused(need *asker.Need, t *asker.Turn, limits ...*Limiter) {
	observed(need, t, true, limits)
}

func observed(need *asker.Need, t *asker.Turn, unused bool, limits []*Limiter) {
	if !observe.On() {
		return
	}
	for i, l := range limits {
		part := need.Part
		if i > 0 {
			part = need.More[i-1]
		}
		turn := observe.Turn{
			Prefix: l.core.cfg.Prefix, Limit: l.String(), Cost: part.Cost, ID: need.ID,
			Given: t.Used, Late: t.Used.Sub(t.Due), Slack: t.Until.Sub(t.Due), Unused: unused,
		}
		if i == 0 {
			turn.Pace = t.Pace
		}
		if t.Process != "" { // Redis knows of it
			turn.Told, turn.Turn, turn.Early = time.UnixMicro(t.Given), time.UnixMicro(t.Moment), t.Early
		}
		observe.Report(turn)
	}
}
