package main

import (
	"bytes"
	"encoding/json"
	"slices"
)

// The figures that each line of output has, null where they mean nothing. All but
// the last also come with _min and _max over the rounds.
const (
	nsPerOp     = "ns_per_op"
	opsPerSec   = "ops_per_second"
	cmdsPerOp   = "redis_commands_per_op"
	allocsPerOp = "allocs_per_op"
	ratio       = "ratio_to_fleetpace"
)

var common = []string{nsPerOp, opsPerSec, cmdsPerOp, allocsPerOp}

// record is what was measured of one contender in one case.
type record struct {
	Case, Contender string

	Ratio  float64  // of ns_per_op to that of fleetpace; 0: there is none
	more   []string // names of further figures, in order
	values map[string][]float64
}

func newRecord(name, contender string) *record {
	return &record{Case: name, Contender: contender, values: make(map[string][]float64)}
}

// note adds the value of one round.
func (r *record) note(name string, value float64) {
	if !slices.Contains(common, name) && !slices.Contains(r.more, name) {
		r.more = append(r.more, name)
	}
	r.values[name] = append(r.values[name], value)
}

// get is a figure over the rounds, if there is one.
func (r *record) get(name string) (spread, bool) {
	if len(r.values[name]) == 0 {
		return spread{}, false
	}
	return spreadOf(r.values[name]), true
}

// compareAll sets the ratios of the records of one case.
func compareAll(records []*record) {
	i := slices.IndexFunc(records, func(r *record) bool { return r.Contender == fleetpaceName })
	if i < 0 {
		return
	}
	ours, ok := records[i].get(nsPerOp)
	if !ok || ours.median == 0 {
		return
	}
	for _, r := range records {
		if theirs, ok := r.get(nsPerOp); ok {
			r.Ratio = theirs.median / ours.median
		}
	}
}

// MarshalJSON keeps the order of the figures.
func (r *record) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	var failed error
	put := func(name string, value any) {
		text, err := json.Marshal(value)
		if err != nil {
			failed = err
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + name + `":`)
		b.Write(text)
	}
	put("case", r.Case)
	put("contender", r.Contender)
	for _, name := range slices.Concat(common, []string{ratio}, r.more) {
		s, ok := r.get(name)
		switch {
		case name == ratio && r.Ratio > 0:
			put(name, significant(r.Ratio))
		case !ok:
			put(name, nil)
		default:
			put(name, significant(s.median))
			put(name+"_min", significant(s.min))
			put(name+"_max", significant(s.max))
		}
	}
	return append(append([]byte{'{'}, b.Bytes()...), '}'), failed
}
