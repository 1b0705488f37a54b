package world

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// judge judges a history that is over.
func (w *world) judge() {
	w.judgeUsed()
	w.judgeAlive()
	w.judgeQuiet()
}

// judgeUsed is the law that permits are used: see guarantees.
func (w *world) judgeUsed() {
	for _, m := range w.meters {
		total := 0.0
		for _, l := range m.lost {
			total += l.permits
		}
		if may := w.mayLose(m); total > may {
			w.violate("used", "%s lost %.1f permits of %.1f/s while calls waited, and may lose %.1f: %s",
				m.name, total, m.plan.limit.Rate(), may, m.losses())
		}
	}
}

// losses lists the largest losses.
func (m *meter) losses() string {
	all := slices.Clone(m.lost)
	slices.SortFunc(all, func(a, b loss) int { return int(b.permits*1000 - a.permits*1000) })
	var texts []string
	for _, l := range all[:min(4, len(all))] {
		texts = append(texts, fmt.Sprintf("%.1f until %v", l.permits, l.to))
	}
	return strings.Join(texts, ", ")
}

// stuck reports whether calls wait for longer than they may once all is well.
func (w *world) stuck() bool { return w.now > max(w.plan.until, w.plan.calm())+w.patience() }

// judgeAlive is the law that each call has its turn, or an error, once all is well.
func (w *world) judgeAlive() {
	var texts []string
	for _, c := range w.calls {
		if c.state == waiting {
			texts = append(texts, fmt.Sprintf("call %d of process %d since %v", c.n, c.process.n, c.joined))
		}
	}
	if len(texts) > 0 {
		slices.Sort(texts)
		w.violate("alive", "%d calls wait: %s", len(texts), strings.Join(texts[:min(3, len(texts))], ", "))
	}
}

// patience is how long a call may wait once all is well: the fleet is back, and then all that wait have
// their turns.
func (w *world) patience() time.Duration {
	const back = 5 * time.Second
	worst := time.Duration(0)
	costs := map[*meter]float64{}
	for i := range w.plan.loads {
		l := &w.plan.loads[i]
		for _, p := range l.parts {
			costs[w.meterOf(p)] += float64(l.callers*p.cost) * float64(max(1, len(w.processes)/len(w.plan.processes)))
		}
	}
	for m, cost := range costs {
		worst += time.Duration(cost / m.plan.limit.Rate() * float64(time.Second))
	}
	slowest := time.Duration(0)
	for _, p := range w.plan.processes {
		slowest = max(slowest, p.timeout)
	}
	return back + 2*slowest + worst
}

// judgeQuiet is the law that the fleet asks no more than it has to.
func (w *world) judgeQuiet() {
	calls := 0
	for verb, n := range w.server.calls {
		if verb != "beat" {
			calls += n
		}
	}
	seconds := 0.0
	for _, p := range w.processes {
		seconds += (w.now - p.began).Seconds()
	}
	turns, misses := w.ended[made], w.ended[missed]
	gone := w.ended[gaveUp] + w.ended[lost] + w.ended[failed]
	most := 3*float64(turns) + 3*float64(misses+gone) + 5*seconds + 50
	if float64(calls) > most {
		w.violate("quiet", "%d script calls, and %.0f are enough for %d turns, %d misses, %d calls that were given up, in %.0f process-seconds: %v",
			calls, most, turns, misses, gone, seconds, w.server.calls)
	}
}

// judgeError is the law that errors are true.
func (w *world) judgeError(c *call, err error) {
	var typed *reserve.Error
	switch {
	case !errors.As(err, &typed):
		w.violate("true", "call %d: not a typed error: %v", c.n, err)
	case errors.Is(err, reserve.ErrUnavailable) && w.plan.policy != reserve.PolicyFail:
		w.violate("true", "call %d did not wait for Redis: %v", c.n, err)
	}
}
