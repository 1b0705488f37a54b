//go:build !fleetpace_engine

// Package backend is what gives calls their turns: package asker, or with the build tag fleetpace_engine
// package engine. It goes when package asker does.
package backend

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/asker"
	"github.com/fleetpace/fleetpace/internal/outage"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// These are what both have in common.
type (
	Process = asker.Asker
	Need    = asker.Need
	Part    = asker.Part
	Turn    = asker.Turn
	Held    = asker.Held
	Slots   = asker.Slots
	NotNow  = asker.NotNow
	Booking = asker.Booking
	Event   = asker.Event
	Errors  = asker.Errors
	Away    = asker.Away
)

// See package asker. It logs by itself that Redis is away, or back.
const (
	Margin = asker.Margin

	AwayWait, AwayFail, AwayOpen, AwayLocal = asker.AwayWait, asker.AwayFail, asker.AwayOpen, asker.AwayLocal

	Asked, Lapsed, Outlasted, Moved, Rules, Unfit = asker.Asked, asker.Lapsed, asker.Outlasted, asker.Moved, asker.Rules, asker.Unfit

	WentAway, CameBack asker.What = -1, -2
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
	breaker := outage.NewBreaker(outage.Config{
		Failures: cfg.Failures, Probe: cfg.Probe, Name: cfg.Name, Policy: cfg.Policy, Logger: cfg.Logger, Silent: cfg.Silent,
	}, rand.Float64)
	return asker.New(asker.Config{
		Client: cfg.Client, Channel: cfg.Channel, Dead: cfg.Dead, Breaker: breaker, Away: cfg.Away, Share: cfg.Share,
		Policy: cfg.Policy, Watch: cfg.Watch, Errors: cfg.Errors,
	}), breaker.Shut
}

// Never reports whether Redis was never reached.
func Never(Event) bool { return false }
