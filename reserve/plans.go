package reserve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/fleetpace/fleetpace/internal/engine"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// This file is limits that come from the program: see Config.LimitOf.

// MaxVersion is the highest version of a plan: see [Config.LimitOf]. As a time in microseconds, it
// is in the year 2112.
const MaxVersion = wire.MostVersion

// planOf returns the newest known plan of a key, after it has asked Config.LimitOf.
func (c *core) planOf(key string, l *wire.Limit) (Limit, error) {
	limit, version, err := c.lookUp(key)
	if err != nil {
		return Limit{}, err
	}
	t := limit.numbers()
	plan, of := l.Plan(t, version)
	if version > 0 && of == version && !plan.Same(t) {
		c.unversioned.Do(func() {
			loud(c.cfg.Logger).Warn("fleetpace: Config.LimitOf has returned another limit of a key than the one in force, with the same version; the one in force stays. Raise the version with each change",
				"limit", l.String(), "in_force", limit.as(plan).String(), "returned", limit.String(), "version", version)
		})
	}
	return limit.as(plan), nil
}

// lookUp asks Config.LimitOf for the limit of a key, and checks it.
func (c *core) lookUp(key string) (limit Limit, version int64, err error) {
	defer func() {
		if what := recover(); what != nil {
			err = invalid("Config.LimitOf", "must not panic, but for the key %q it panicked: %v", key, what)
		}
	}()
	limit, version = c.cfg.LimitOf(key)
	own := &c.cfg.Limit
	switch {
	case version == 0:
		return *own, 0, nil
	case version < 0 || version > MaxVersion:
		return limit, 0, invalid("Config.LimitOf", "must return a version from 0 to %d, got %d for the key %q: return for example the time of the last change, in microseconds", MaxVersion, version, key)
	case limit == *own:
		return limit, version, nil
	}
	if err := limit.check(); err != nil {
		return limit, 0, fmt.Errorf("%w, as Config.LimitOf returned for the key %q", err, key)
	}
	if limit.kind != own.kind && (limit.kind == KindSlots || own.kind == KindSlots) {
		return limit, 0, invalid("Config.LimitOf", "must return slots if Config.Limit has slots (%v), and only then, got %q for the key %q: to bound both, use All", own, limit, key)
	}
	return limit, version, nil
}

// numbers returns the terms of a limit without the function for the windows of a quota.
func (l *Limit) numbers() wire.Terms {
	t := wire.Terms{Kind: wire.Kinds[l.kind].Letter, Calendar: l.calendar()}
	t.A, t.B = forms[l.kind].terms(l)
	if l.kind == KindRolling {
		t.Late = max(0, l.margin/2-engine.Tolerance).Microseconds()
	}
	return t
}

// planned reports whether the limit comes from Config.LimitOf.
func (l *Limiter) planned() bool { return l.core.cfg.LimitOf != nil && l.limit != nil && l.key != "" }

// checkCost checks the cost of a call, and looks up the plan of its key. Redis checks the
// cost if the process does not know the plan in force yet. If the call is not new, its cost may be above that of its plan.
func (l *Limiter) checkCost(name string, n int, isNew bool) error {
	cfg := &l.core.cfg
	if !l.planned() {
		if n < 1 || n > cfg.Limit.MaxBurst() {
			return cfg.validateCost(name, cfg.Name, cfg.Limit, n)
		}
		return nil
	}
	limit, err := l.core.planOf(l.key, l.limit)
	switch {
	case err != nil && isNew:
		return err
	case n < 1 || isNew && n > limit.MaxBurst() && l.limit.Asked():
		return cfg.validateCost(name, l.String(), limit, n)
	}
	return nil
}

// costIn returns the error for a cost that Redis refused, as the limit in force of a planned key was not known
// before. Other errors stay as they are.
func (l *Limiter) costIn(err error, name string, n int) error {
	if err == nil || !l.planned() || !errors.Is(err, ErrExceedsBurst) {
		return err
	}
	if own := l.core.cfg.validateCost(name, l.String(), l.Limit(), n); own != nil {
		return own
	}
	return err
}

// replan looks up the plans of limits at which calls wait. If that takes long, the next time is left out.
func (s *shared) replan(limits []*wire.Limit) {
	if !s.replanning.CompareAndSwap(false, true) {
		return
	}
	defer s.replanning.Store(false)
	var news []*wire.Limit
	for _, l := range limits {
		c, _ := l.Name.Owner.(*core)
		if c == nil || l.Key == "" {
			continue
		}
		if _, err := c.planOf(l.Key, l); err != nil {
			s.unplanned.Do(func() {
				loud(c.cfg.Logger).Warn("fleetpace: Config.LimitOf failed; calls that wait keep the limit that they have", "limit", l.String(), "error", err)
			})
			continue
		}
		if l.Unsaid() {
			news = append(news, l)
		}
	}
	if len(news) > 0 {
		s.process.Planned(news)
	}
}

// follows logs that a limit has a newer plan than that of this process.
func (s *shared) follows(e engine.Event) {
	s.following.Add(1)
	s.followed.Do(func() {
		c, _ := e.Limit.Name.Owner.(*core)
		if c == nil || !c.cfg.Logger.Enabled(context.Background(), slog.LevelInfo) {
			return
		}
		plan, version := e.Limit.Plan(wire.Terms{}, 0)
		c.cfg.Logger.Info("fleetpace: another process has a newer limit of a key than Config.LimitOf of this process; this process follows it",
			"limit", e.Limit.String(), "in_force", c.cfg.Limit.as(plan).String(), "version", version, "followed_so_far", s.following.Load())
	})
}
