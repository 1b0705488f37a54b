package world

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/fleetpace/fleetpace/lua"
)

// This file lets providers follow the limits that scripts put in force.

// followPlans lets the providers of limits with plans follow what a script has put in force.
func (w *world) followPlans(keys []string) {
	for i := range w.plan.limits {
		if !w.plan.isPlanned(i) || !slices.Contains(keys, w.key(i)) {
			continue
		}
		state := w.server.Data.Find(w.key(i))
		if state == nil {
			continue
		}
		for _, field := range state.Items {
			m := w.meterOf(part{limit: i})
			if field.Member != "limit" || field.Value == m.text {
				continue
			}
			var a, b float64
			if _, err := fmt.Sscan(field.Value, &a, &b); err != nil {
				panic(err)
			}
			w.advance()
			if own := termsOf(m.plan.limit); m.text != "" || a != own.A || b != own.B {
				m.change(a, b)
			}
			m.sets, m.text = append(m.sets, setting{w.now, a, b}), field.Value
			w.note("the plan %s of %s is in force", field.Value, m.name)
		}
	}
}

// ran handles each script call: the providers follow the actions of operators.
func (w *world) ran(verb string, keys, args []string) {
	for _, key := range keys {
		if verb != "inspect" {
			w.asked[key] = w.now
		}
	}
	if w.versions > 0 {
		w.followPlans(keys)
	}
	if verb != pause && verb != set && verb != resume {
		return
	}
	const all = lua.ArgsOfAll
	own := args[all+lua.ArgsOfLimit*len(keys)/lua.KeysOfLimit:]
	for i := range w.plan.limits {
		if keys[0] != w.key(i) {
			continue
		}
		m := w.meterOf(part{limit: i})
		w.advance()
		switch verb {
		case pause:
			micros, _ := strconv.ParseFloat(own[0], 64)
			until := w.now + time.Duration(micros*1e3)
			m.pause(until)
			m.pauses = append(m.pauses, paused{w.now, until})
		case resume:
			for k := range m.pauses {
				m.pauses[k].until = min(m.pauses[k].until, w.now)
			}
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
