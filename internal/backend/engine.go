//go:build fleetpace_engine

// Package backend is what gives calls their turns: package engine.
package backend

import (
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/engine"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// These are what both have in common.
type (
	Process = engine.Process
	Need    = engine.Need
	Part    = engine.Part
	Turn    = engine.Turn
	Held    = engine.Held
	Slots   = engine.Slots
	NotNow  = engine.NotNow
	Booking = engine.Booking
	Event   = engine.Event
	Errors  = engine.Errors
	Away    = engine.Away
)

// See package engine.
const (
	Margin = engine.Margin

	AwayWait, AwayFail, AwayOpen, AwayLocal = engine.AwayWait, engine.AwayFail, engine.AwayOpen, engine.AwayLocal

	Asked, Lapsed, Outlasted, Moved, Rules, Unfit = engine.Asked, engine.Lapsed, engine.Outlasted, engine.Moved, engine.Rules, engine.Unfit

	WentAway, CameBack = engine.WentAway, engine.CameBack
)

// Config is what a Process needs.
type Config struct {
	Client       redis.UniversalClient
	Channel      string
	Dead         time.Duration
	Away         Away
	Policy, Name string
	Failures     int
	Probe        time.Duration
	Share        func(l *wire.Limit) (perSecond float64, burst int)
	Logger       *slog.Logger
	Silent       bool
	Watch        func(Event)
	Errors       Errors
}

// Start returns a Process, and the error of calls that are not made as Redis is away.
func Start(cfg Config) (*Process, func() error) {
	p := engine.Start(cfg.Client, engine.Config{
		Channel: cfg.Channel, Dead: cfg.Dead, Away: cfg.Away, Failures: cfg.Failures, Probe: cfg.Probe, Share: cfg.Share, Errors: cfg.Errors,
	}, cfg.Policy, cfg.Watch)
	return p, p.Shut
}

// Never reports whether Redis was never reached.
func Never(e Event) bool { return e.Never }
