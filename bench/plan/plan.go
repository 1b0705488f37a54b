package main

import (
	"math"
)

const hoursPerMonth = 365.25 * 24 / 12

// plan is the answer.
type plan struct {
	workload workload
	terms    terms

	Input input `json:"input"`

	Calls       float64 `json:"calls_per_second"`
	ScriptCalls float64 `json:"script_calls_per_second"`
	PerTrip     float64 `json:"limits_per_ask"` // where nobody waits
	ScriptCores float64 `json:"script_cores"`
	Cores       float64 `json:"cores"`
	Parts       []part  `json:"parts"`

	Shards        int     `json:"shards"`
	Load          float64 `json:"busiest_shard_load"` // when names are spread evenly
	NamesNeeded   int     `json:"names_needed"`       // so that none needs more than -load of a core; 0: no number does
	MemoryBytes   float64 `json:"memory_bytes"`
	PerShardBytes float64 `json:"memory_per_shard_bytes"`

	CostPerMonth   float64 `json:"cost_per_month"`
	CostPerMillion float64 `json:"cost_per_million_calls"`

	Dominant string   `json:"dominant"`
	WhatIf   []whatIf `json:"what_if"`
	Warnings []string `json:"warnings"`
}

// input is what was asked, for machines.
type input struct {
	Rate         float64 `json:"rate"`
	Processes    int     `json:"processes"`
	Limits       int     `json:"limits"`
	Names        int     `json:"names"`
	LeaseSeconds float64 `json:"lease_seconds"`
	FillSeconds  float64 `json:"fill_seconds"`
	RTTSeconds   float64 `json:"rtt_seconds"`
	Waiting      int     `json:"waiting"`
	Price        float64 `json:"price"`
	Load         float64 `json:"load"`
}

func newInput(w workload, t terms) input {
	return input{
		w.Rate, w.Processes, w.Limits, w.Names,
		w.Lease.Seconds(), w.Fill.Seconds(), w.RTT.Seconds(), w.Waiting, t.Price, t.Load,
	}
}

func newPlan(w workload, t terms, c calibration) (plan, error) {
	if err := w.check(); err != nil {
		return plan{}, err
	}
	if err := t.check(); err != nil {
		return plan{}, err
	}
	p := plan{workload: w, terms: t, Input: newInput(w, t), Calls: w.Rate, Parts: demand(w, c)}
	for _, part := range p.Parts {
		p.ScriptCalls += part.Trips
		p.ScriptCores += part.Script
		p.Cores += part.Cores
	}
	p.PerTrip = p.Parts[0].Items

	p.shard()
	p.NamesNeeded = namesNeeded(w, t, c)
	p.MemoryBytes = memoryOf(w, c) + float64(p.Shards)*c.ServerBytes
	p.PerShardBytes = p.MemoryBytes / float64(p.Shards)

	hour := float64(p.Shards) * t.Price
	p.CostPerMonth = hour * hoursPerMonth
	p.CostPerMillion = hour / 3600 / w.Rate * 1e6

	p.WhatIf = whatIfs(w, c, p.Cores)
	p.Dominant = p.dominant()
	p.Warnings = p.warnings()
	return p, nil
}

// shard puts as many names onto a shard as its load allows, at least one.
func (p *plan) shard() {
	names := float64(p.workload.Names)
	each := p.Cores / names
	perShard := min(names, max(1, math.Floor(p.terms.Load/each)))
	p.Shards = int(math.Ceil(names / perShard))
	p.Load = each * math.Ceil(names/float64(p.Shards))
}

// namesNeeded is the least number of names of which none needs more than the load of
// a core. More names than limits can not be.
func namesNeeded(w workload, t terms, c calibration) int {
	fits := func(names int) bool {
		w.Names = names
		return coresOf(w, c) <= t.Load*float64(names)
	}
	if !fits(w.Limits) {
		return 0
	}
	low, high := 0, w.Limits // low does not fit, high does
	for high-low > 1 {
		middle := low + (high-low)/2
		if fits(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

func coresOf(w workload, c calibration) (cores float64) {
	for _, part := range demand(w, c) {
		cores += part.Cores
	}
	return cores
}
