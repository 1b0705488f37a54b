package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// Config says how a server grants turns. The zero value suits a server that only this machine can
// reach.
type Config struct {
	// Token is a bearer token with all rights. With Token or TokenFile, all requests need a token,
	// except those of /healthz and /readyz. Default: none.
	Token string

	// TokenFile is a file with more tokens. Each line has a right and a token. The rights are turns
	// (also to pause or stop for at most an hour), operate (to pause and change limits) and metrics. A right
	// may have several tokens, and a token several rights. The file is read again every 5 s. Default:
	// none.
	TokenFile string

	// Poll is the longest that a request waits, from 1 s to 10 minutes. A request may ask for less.
	// Keep it below the timeouts of proxies in between. Default 25 s.
	Poll time.Duration

	// Lease is how long a turn keeps its slots without renewal, from 1 s to an hour. Default 8 s:
	// callers renew after a third of it, and after a loss of data Redis grants no slots for 3 s.
	Lease time.Duration

	// MaxWaiting is how many requests may wait at a time. Further requests get 503. A caller has at most
	// four waiting requests for each further one that the server could hold, so at most four fifths of all. A caller is
	// the name in the header Fleetpace-Caller, or an address. Default 20,000.
	MaxWaiting int

	// MaxKept bounds how many places of calls, and how many turns, the server keeps between two requests of a
	// call, for 10 s each. A call without an id gets 503 if no place is left; the place of a call with an id
	// is in Redis. A caller gets its part of the places, as with MaxWaiting. The oldest turns are forgotten first. Default 20,000.
	MaxKept int

	// Ready is called for /readyz. An error means that the server cannot grant turns: it is logged, and
	// the response says that Redis does not answer. Several goroutines may call it at a time. Default: it always can.
	Ready func(context.Context) error

	// Metrics serves /metrics. Default: that path is not served.
	Metrics http.Handler

	// Logger gets failures of Redis, and callers that have too many requests, with the name of the caller.
	// Errors in the file of limits go to the Logger of [limits.Load]. Default slog.Default().
	Logger *slog.Logger
}

// ErrInvalid says that a setting is wrong; the text names it and its value.
var ErrInvalid = reserve.ErrInvalid

func invalid(field, format string, args ...any) error {
	return fmt.Errorf("server: %w %s: %s", ErrInvalid, field, fmt.Sprintf(format, args...))
}

func (c Config) withDefaults() Config {
	if c.Poll == 0 {
		c.Poll = 25 * time.Second
	}
	if c.Lease == 0 {
		c.Lease = 8 * time.Second
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
