package queuemodel

// Only returns a Redis that has the jth limit alone, as its first.
func (r *Redis) Only(j int) *Redis {
	one := &Redis{Limits: map[int]*State{}, Dead: r.Dead}
	if s := r.Limits[j]; s != nil {
		one.Limits[0] = s
	}
	return one
}

// Take stores the limit of a Redis that Only returned.
func (r *Redis) Take(j int, one *Redis) { r.Limits[j] = one.Limits[0] }

// Grow raises the version of the jth limit to at least a version.
func (r *Redis) Grow(j int, version float64) { r.Limits[j].version = max(r.Limits[j].version, version) }
