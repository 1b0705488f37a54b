package limits

import (
	"fmt"

	"github.com/fleetpace/fleetpace/reserve"
)

// Changes are the names of the limits that changed with the file. Added and Changed are in the
// order of the new file, and Removed is in the order of the old one.
type Changes struct {
	Added, Changed, Removed []string
}

// Any reports whether any limit changed.
func (c Changes) Any() bool { return len(c.Added)+len(c.Changed)+len(c.Removed) > 0 }

// Reload reads the file again. If it fails, nothing changes, and the error is an error of [Load] or
// [reserve.ErrClosed]. If it succeeds, the Set uses the new file from then on, for all names at
// once. The package documentation says what happens to limiters that are in use. The Logger gets a
// line for each change.
func (s *Set) Reload() (Changes, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return Changes{}, fmt.Errorf("limits: reload %s: %w", s.path, reserve.ErrClosed)
	}
	data, err := read(s.path)
	if err != nil {
		return Changes{}, err
	}
	old := s.table.Load()
	now, err := s.take(data)
	if err != nil {
		return Changes{}, err
	}
	changes := differ(old, now)
	s.report(old, now, changes)
	return changes, nil
}

// take replaces the table by what the file says now.
func (s *Set) take(data []byte) (*table, error) {
	entries, err := parse(s.client, s.path, data, s.defaults)
	if err != nil {
		return nil, err
	}
	t := &table{limits: make(map[string]named, len(entries))}
	for _, e := range entries {
		n := named{e.settings, e.key, e.flows, e.plans, nil}
		if err := n.follows(s.table.Load().limits[n.settings.name]); err != nil {
			e.file.problems.add(e.lines["version"], e.path+".version", "%v", err)
		}
	}
	if len(entries) > 0 {
		if err := entries[0].file.problems.in(s.path); err != nil {
			return nil, err
		}
	}
	for _, e := range entries {
		limiter := s.made[e.settings]
		if limiter == nil {
			if limiter, err = e.settings.limiter(s.client, s.defaults, s.limitOf(e.settings)); err != nil {
				return nil, err
			}
			s.made[e.settings] = limiter
		}
		t.names = append(t.names, e.settings.name)
		t.limits[e.settings.name] = named{e.settings, e.key, e.flows, e.plans, limiter}
	}
	s.table.Store(t)
	return t, nil
}

func differ(old, now *table) Changes {
	var c Changes
	for _, name := range now.names {
		before, known := old.limits[name]
		after := now.limits[name]
		switch {
		case !known:
			c.Added = append(c.Added, name)
		case before.settings != after.settings || before.key.text != after.key.text, before.flows.String() != after.flows.String(),
			!after.plans.same(before.plans), after.plans.version != before.plans.version:
			c.Changed = append(c.Changed, name)
		}
	}
	for _, name := range old.names {
		if _, known := now.limits[name]; !known {
			c.Removed = append(c.Removed, name)
		}
	}
	return c
}

func (s *Set) report(old, now *table, c Changes) {
	for _, name := range c.Added {
		s.logger.Info("fleetpace: a limit was added", "file", s.path, "limit", name, "is", now.limits[name].String())
	}
	for _, name := range c.Changed {
		s.logger.Info("fleetpace: a limit has changed", "file", s.path, "limit", name,
			"was", old.limits[name].String(), "is", now.limits[name].String())
	}
	for _, name := range c.Removed {
		s.logger.Info("fleetpace: a limit was removed", "file", s.path, "limit", name, "was", old.limits[name].String())
	}
}

func (n named) String() string {
	text := n.settings.String()
	if n.key.text != "" {
		text += ", key " + n.key.text
	}
	return text + n.flows.String() + n.plans.String()
}
