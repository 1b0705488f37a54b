package queuemodel

import (
	"maps"
	"slices"
)

// Only returns a Redis that has the jth limit alone, as its first.
func (r *Redis) Only(j int) *Redis {
	one := &Redis{Limits: map[int]*State{}, Dead: r.Dead, Beaten: r.Beaten}
	if s := r.Limits[j]; s != nil {
		one.Limits[0] = s
	}
	return one
}

// Take stores the limit of a Redis that Only returned.
func (r *Redis) Take(j int, one *Redis) { r.Limits[j] = one.Limits[0] }

// Grow raises the version of the jth limit to at least a version.
func (r *Redis) Grow(j int, version float64) { r.Limits[j].version = max(r.Limits[j].version, version) }

// Copy returns a copy, for a rollback.
func (r *Redis) Copy() *Redis {
	c := New()
	for j, l := range r.Limits {
		d := *l
		d.places, d.lows, d.log = slices.Clone(l.places), slices.Clone(l.lows), slices.Clone(l.log)
		d.bookings, d.holders = slices.Clone(l.bookings), slices.Clone(l.holders)
		d.window, d.records, d.flows = maps.Clone(l.window), maps.Clone(l.records), maps.Clone(l.flows)
		d.late, d.behind = maps.Clone(l.late), maps.Clone(l.behind)
		c.Limits[j] = &d
	}
	maps.Copy(c.Dead, r.Dead)
	c.Beaten = r.Beaten
	return c
}
