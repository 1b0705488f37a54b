package world

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/lua"
)

// This file lets providers follow the limits that scripts put in force.

// followPlans lets the providers of limits with plans follow what a script has put in force.
func (w *world) followPlans(keys []string) {
	for _, key := range keys {
		m, state := w.byState[key], w.server.Data.Find(key)
		if m == nil || state == nil {
			continue
		}
		anew := m.anew
		if m.anew = false; w.versions == 0 || !w.plan.isPlanned(m.limit) {
			continue
		}
		fields := map[string]string{}
		for _, field := range state.Items {
			fields[field.Member] = field.Value
		}
		if text := fields["limit"]; text != m.text {
			words := strings.Fields(text)
			form := strings.Join(words[:len(words)-2], " ")
			a, _ := strconv.ParseFloat(words[len(words)-2], 64)
			b, _ := strconv.ParseFloat(words[len(words)-1], 64)
			w.advance()
			if form != m.form {
				m.form = form
				w.convert(m, fields, anew)
				m.sets, m.text = append(m.sets, setting{w.now, a, b}), text
				continue
			}
			if own := termsOf(m.plan.limit); m.text != "" || a != own.A || b != own.B {
				m.change(a, b)
			}
			m.sets, m.text = append(m.sets, setting{w.now, a, b}), text
			w.note("the plan %s of %s is in force", text, m.name)
		}
	}
}

// turned is a provider whose limit becomes one of another kind: until a moment it is as before.
type turned struct {
	provider
	next provider
	at   time.Duration
}

func (t *turned) wait(until time.Duration, cost float64) time.Duration {
	_ = t.provider.wait(until, cost)
	return 0
}
func (t *turned) has(float64) bool          { return false }
func (t *turned) change(a, b float64)       { t.next.change(a, b) }
func (t *turned) pause(until time.Duration) { t.next.pause(until) }

// turnedBy returns the provider that judges calls at a moment.
func turnedBy(p provider, now time.Duration) provider {
	t, is := p.(*turned)
	switch {
	case !is:
		return p
	case t.at <= now:
		return t.next
	}
	t.provider = turnedBy(t.provider, now)
	return t
}

// ahead is how long after a change of the kind the next turn is due.
const ahead = time.Second

// convert lets a provider go over to a plan of another kind, in a second. The new limit counts what was used, as the
// state says. If the state begins anew, one permit is there then: docs/how-it-works.md says that quotas, rolling
// limits and limits with warm-up do not know all that was used then.
func (w *world) convert(m *meter, fields map[string]string, anew bool) {
	rank, _ := strconv.ParseFloat(fields["rank"], 64)
	limit, planned := w.plans[int64(rank)-1<<40]
	if !planned {
		limit = w.plan.limits[m.limit].limit
	}
	begins := 0. // permits
	if anew {
		begins = 1 // as after a pause
	}
	next, words := w.newProvider(limit), append(strings.Fields(fields["meter"]), "0", "0")
	_ = next.wait(w.now+ahead, 1)
	switch n := next.(type) {
	case *paced:
		n.stored, n.changes[0].stored = begins, begins
	case *warming:
		n.ready = w.now + ahead
	case *quota:
		n.used, _ = strconv.ParseFloat(words[1], 64)
	case *rolling:
		used, _ := strconv.ParseFloat(words[0], 64)
		n.log = append(n.log, spent{w.now, used})
	}
	plan := *m.plan
	plan.limit, m.plan, m.provider = limit, &plan, &turned{m.provider, next, w.now + ahead}
	w.note("the plan %v of %s comes in force", limit, m.name)
}

// ran handles each script call: the providers follow the actions of operators.
func (w *world) ran(verb string, keys, args []string) {
	for _, key := range keys {
		if verb != "inspect" {
			w.asked[key] = w.now
		}
	}
	w.followPlans(keys)
	if verb != pause && verb != set && verb != resume {
		return
	}
	const all = lua.ArgsOfAll
	own := args[all+lua.ArgsOfLimit*len(keys)/lua.KeysOfLimit:]
	for i := range w.plan.limits {
		if !slices.Contains(keys, w.key(i)) {
			continue
		}
		m := w.meterOf(part{limit: i})
		w.advance()
		switch verb {
		case pause, resume:
			w.followPause(m, verb == pause && own[0] == "0")
		case set:
			a, b := own[0], own[1]
			if a == "" {
				a, b = args[all+lua.LimitA], args[all+lua.LimitB]
			}
			x, _ := strconv.ParseFloat(a, 64)
			y, _ := strconv.ParseFloat(b, 64)
			m.change(x, y)
			m.sets = append(m.sets, setting{w.now, x, y})
		}
		w.note("%s of %s %q", verb, m.name, own)
	}
}

// rules reports whether a limit of the plan is in force, and no limit of another kind. Then a process that needs
// it and has it is alive, its first reply came before a process with another kind began, and no process can count as
// dead.
func (w *world) rules(limit int) bool {
	return !w.plan.has(slices.Concat(ofTheWay, ofTheServer, ofMoments, []string{stop})...) &&
		slices.ContainsFunc(w.meters, func(m *meter) bool {
			return m.limit == limit && slices.ContainsFunc(w.processes, func(p *process) bool {
				return p.n < len(w.plan.processes) && m.users[p] > 0 && !p.dead && !p.strange && !slices.ContainsFunc(w.processes, func(o *process) bool {
					return o.strange && o.other == limit && o.began < m.replies[p]
				})
			})
		})
}
