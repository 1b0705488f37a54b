package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// Config says how turns are given. The zero value is good for a server that only this machine
// reaches.
type Config struct {
	// Token is the bearer token that all requests need, but those of /healthz and /readyz.
	// Default: none is needed.
	Token string

	// Poll is the longest that a request waits, from 1 s to 10 minutes. A request may ask for
	// less. Keep it below the timeouts of proxies on the way. Default 25 s.
	Poll time.Duration

	// Lease is how long a turn holds slots without being renewed, from 1 s to an hour.
	// Default 10 s.
	Lease time.Duration

	// MaxWaiting is how many requests may wait at a time. Others get 503. Default 20,000.
	MaxWaiting int

	// MaxKept is how many calls may have a place that only this server keeps between two of their
	// requests, and of how many calls it knows the turn that was given last, so that they can hand
	// it back. Each is kept for 10 s. A call that would be one place too many gets 503: with an id
	// of its own, its place is in Redis, and does not count. Turns beyond it are forgotten, the
	// oldest first. Default 20,000.
	MaxKept int

	// Ready is what /readyz asks: its error says why no turns can be given, and nil that they
	// can. Several goroutines may call it at a time. Default: they always can.
	Ready func(context.Context) error

	// Metrics serves /metrics. Default: nothing does.
	Metrics http.Handler

	// Logger hears of failures of Redis, and of slots that nobody renewed. Of mistakes in the file
	// of limits that of [limits.Load] hears. Default slog.Default().
	Logger *slog.Logger
}

// ErrInvalid says that a setting is wrong; the text names it and its value.
var ErrInvalid = errors.New("invalid")

func invalid(field, format string, args ...any) error {
	return fmt.Errorf("remote: %w %s: %s", ErrInvalid, field, fmt.Sprintf(format, args...))
}

func (c Config) withDefaults() Config {
	if c.Poll == 0 {
		c.Poll = 25 * time.Second
	}
	if c.Lease == 0 {
		c.Lease = 10 * time.Second
	}
	if c.MaxWaiting == 0 {
		c.MaxWaiting = 20_000
	}
	if c.MaxKept == 0 {
		c.MaxKept = 20_000
	}
	if c.Ready == nil {
		c.Ready = func(context.Context) error { return nil }
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Poll < time.Second || c.Poll > 10*time.Minute:
		return invalid("Config.Poll", "must be from 1s to 10m, or 0 for the default, got %v", c.Poll)
	case c.Lease < time.Second || c.Lease > time.Hour:
		return invalid("Config.Lease", "must be from 1s to 1h, or 0 for the default, got %v", c.Lease)
	case c.MaxWaiting < 0:
		return invalid("Config.MaxWaiting", "must be 1 or above, or 0 for the default, got %d", c.MaxWaiting)
	case c.MaxKept < 0:
		return invalid("Config.MaxKept", "must be 1 or above, or 0 for the default, got %d", c.MaxKept)
	}
	return nil
}
