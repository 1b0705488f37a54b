package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// whatIf is the plan's cores when one assumption is half or twice as large.
type whatIf struct {
	Assumption string  `json:"assumption"`
	Half       float64 `json:"cores_if_half"`
	Twice      float64 `json:"cores_if_twice"`
}

// whatIfs leaves out what can not be halved or doubled.
func whatIfs(w workload, c calibration, cores float64) []whatIf {
	scale := func(n int, by float64) int { return int(math.Ceil(float64(n) * by)) }
	var all []whatIf
	for _, a := range []struct {
		name   string
		change func(w *workload, by float64)
	}{
		{"-rate", func(w *workload, by float64) { w.Rate *= by }},
		{"-processes", func(w *workload, by float64) { w.Processes = scale(w.Processes, by) }},
		{"-limits", func(w *workload, by float64) { w.Limits = scale(w.Limits, by) }},
		{"-names", func(w *workload, by float64) { w.Names = scale(w.Names, by) }},
		{"-lease", func(w *workload, by float64) { w.Lease = time.Duration(float64(w.Lease) * by) }},
		{"-rtt", func(w *workload, by float64) { w.RTT = time.Duration(float64(w.RTT) * by) }},
		{"-waiting", func(w *workload, by float64) { w.Waiting = scale(w.Waiting, by) }},
	} {
		with := func(by float64) float64 {
			changed := w
			a.change(&changed, by)
			if changed.check() != nil {
				return cores
			}
			return coresOf(changed, c)
		}
		all = append(all, whatIf{a.name, with(0.5), with(2)})
	}
	return all
}

// weight is by how much an assumption moves the cores, as a factor.
func (f whatIf) weight(cores float64) float64 {
	return max(math.Abs(math.Log(f.Half/cores)), math.Abs(math.Log(f.Twice/cores)))
}

var causes = map[string]string{
	"common":  "asks where nobody waits",
	"waiting": "asks of calls that wait, two per turn",
	"beat":    "a heartbeat per process and name and second",
}

func (p *plan) dominant() string {
	largest := slices.MaxFunc(p.Parts, func(a, b part) int { return compare(a.Cores, b.Cores) })
	text := fmt.Sprintf("%s (%.0f %% of Redis's time)", causes[largest.Name], 100*largest.Cores/p.Cores)
	// The rate moves everything, so it says nothing.
	others := slices.DeleteFunc(slices.Clone(p.WhatIf), func(f whatIf) bool { return f.Assumption == "-rate" })
	most := slices.MaxFunc(others, func(a, b whatIf) int { return compare(a.weight(p.Cores), b.weight(p.Cores)) })
	if most.weight(p.Cores) > 0.05 {
		text += fmt.Sprintf("; beside the rate it rests on %s most: half of it × %.2f, twice × %.2f",
			most.Assumption, most.Half/p.Cores, most.Twice/p.Cores)
	}
	return text
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (p *plan) warnings() []string {
	warnings := []string{} // an empty list in JSON
	warn := func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }
	w := p.workload
	each := p.Cores / float64(w.Names)
	switch {
	case each <= p.terms.Load:
	case p.NamesNeeded > 0:
		warn("one name needs %.2f of a core, above the %.2f of -load: a name lives on one shard, so split the limits over at least %d names",
			each, p.terms.Load, p.NamesNeeded)
	default:
		warn("one name needs %.2f of a core, above the %.2f of -load, and with a name per limit it is still too much", each, p.terms.Load)
	}
	if each > 1 {
		warn("a core can not be busier than 1: calls are not lost, they share fewer trips and wait for them longer")
	}
	if p.Shards > 1 && w.Names < 4*p.Shards {
		warn("%d names fall on %d shards by their hash, not evenly: some shard will be busier than %.2f", w.Names, p.Shards, p.Load)
	}
	if w.Lease > w.Fill/2 {
		warn("a lease of %v is used up to half of -fill only: %v", w.Lease, w.Fill/2)
	}
	if w.Lease > 0 && w.Waiting >= w.Limits {
		warn("calls wait in every limit: none has permits to lease, so -lease does nothing")
	} else if pair := w.Rate / (float64(w.Processes) * float64(w.Limits)); w.Lease > 0 && asksOf(pair, w) == pair {
		warn("a process makes %.3g calls per second of a limit, less than two per lease: -lease does nothing", pair)
	}
	return warnings
}
