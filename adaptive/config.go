package adaptive

import (
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/reserve"
)

// Config says how the rate adapts. All processes of a fleet should have the same Config. The
// zero value suits a rate that should not rise above the limiter's own limit.
type Config struct {
	// Ceiling is the highest rate, at least the limiter's own. Its burst is not used.
	// Default: the limiter's own limit.
	Ceiling reserve.Limit

	// Floor is the lowest rate, at most the limiter's own. Its burst is not used. Default: a
	// hundredth of the Ceiling, or the limiter's own if that is lower.
	Floor reserve.Limit

	// Decrease is the factor by which an incident multiplies the rate, above 0 and below 1.
	// Default 0.7.
	Decrease float64

	// Increase is how many permits per second are added after Every without an incident.
	// Default: a hundredth of the Ceiling.
	//
	// With larger steps the rate follows a limit that rose sooner, and runs more often into
	// one that did not.
	Increase float64

	// Every is the length of a round, from 100ms to 10m. Default 10s. Calls should take
	// much less than that.
	Every time.Duration

	// Settle is how long after a decrease the API may still refuse calls because of earlier ones:
	// the length of the window in which it counts. Refusals of calls that were sent within Settle
	// after the decrease belong to the same incident. Up to 10m. Default 1s.
	Settle time.Duration

	// Prefix begins the name of the Redis key for the fleet's state. Use the limiter's
	// [reserve.Config.Prefix]. Default [reserve.DefaultPrefix].
	Prefix string

	// Logger gets a line for each change of the rate, and for failures. Default slog.Default().
	Logger *slog.Logger
}

const (
	defaultDecrease = 0.7
	defaultEvery    = 10 * time.Second
	defaultSettle   = time.Second
	shortestEvery   = 100 * time.Millisecond
	longest         = 10 * time.Minute // the most that Every and Settle may be: far below the expiry
	part            = 100              // the ceiling divided by this is the default floor, and the default increase
	longestPrefix   = 128
	longestKey      = 512
)

// invalid names the field and what is wrong with its value.
func invalid(field, format string, args ...any) error {
	return fmt.Errorf("adaptive: %w %s: %s", reserve.ErrInvalid, field, fmt.Sprintf(format, args...))
}

func (c Config) withDefaults(own reserve.Limit) Config {
	if c.Ceiling == (reserve.Limit{}) {
		c.Ceiling = own
	}
	if c.Floor == (reserve.Limit{}) {
		c.Floor = reserve.PerSecond(min(c.Ceiling.Rate()/part, own.Rate()))
	}
	if c.Decrease == 0 {
		c.Decrease = defaultDecrease
	}
	if c.Increase == 0 {
		c.Increase = c.Ceiling.Rate() / part
	}
	if c.Every == 0 {
		c.Every = defaultEvery
	}
	if c.Settle == 0 {
		c.Settle = defaultSettle
	}
	if c.Prefix == "" {
		c.Prefix = reserve.DefaultPrefix
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// validate checks a Config that has its defaults, for a limiter of this limit.
func (c Config) validate(own reserve.Limit) error {
	for _, f := range []struct {
		field string
		limit reserve.Limit
	}{{"Config.Floor", c.Floor}, {"Config.Ceiling", c.Ceiling}} {
		if err := f.limit.Burst(own.MaxBurst()).Validate(); err != nil {
			return invalid(f.field, "%v", err)
		}
		if f.limit.Kind() != reserve.KindPaced {
			return invalid(f.field, "must be a rate, such as reserve.PerSecond(10), got %v", f.limit)
		}
	}
	switch {
	case own.Kind() != reserve.KindPaced:
		return invalid("limiter", "must be paced, because its rate changes, got %v", own)
	case c.Floor.Rate() > c.Ceiling.Rate():
		return invalid("Config.Floor", "must be at most Config.Ceiling of %v, got %v", c.Ceiling, c.Floor)
	case c.Floor.Rate() > own.Rate():
		return invalid("Config.Floor", "must be at most the limiter's own limit of %v, with which the fleet begins, got %v", own, c.Floor)
	case c.Ceiling.Rate() < own.Rate():
		return invalid("Config.Ceiling", "must be at least the limiter's own limit of %v, with which the fleet begins, got %v", own, c.Ceiling)
	case !(c.Decrease > 0 && c.Decrease < 1):
		return invalid("Config.Decrease", "must be above 0 and below 1, got %v", c.Decrease)
	case !(c.Increase > 0) || math.IsInf(c.Increase, 0):
		return invalid("Config.Increase", "must be a number of permits per second above 0, got %v", c.Increase)
	case c.Every < shortestEvery || c.Every > longest:
		return invalid("Config.Every", "must be from %v to %v, got %v", shortestEvery, longest, c.Every)
	case c.Settle < 0 || c.Settle > longest:
		return invalid("Config.Settle", "must be above 0 and at most %v, or 0 for the default, got %v", longest, c.Settle)
	case len(c.Prefix) > longestPrefix:
		return invalid("Config.Prefix", "must be at most %d bytes, got %d", longestPrefix, len(c.Prefix))
	case strings.ContainsAny(c.Prefix, "{}"):
		return invalid("Config.Prefix", "must not hold a brace, got %q", c.Prefix)
	}
	return nil
}

// oneOf returns the limiter whose rate adapts.
func oneOf(turns reserve.Turns) (*reserve.Limiter, error) {
	if v := reflect.ValueOf(turns); turns == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, invalid("limiter", "must not be nil")
	}
	limits := turns.Limits()
	if len(limits) != 1 {
		return nil, invalid("limiter", "must be one limit, got %q: pass the paced limit whose rate is to adapt", turns)
	}
	return limits[0], nil
}

func validateClient(client redis.UniversalClient) error {
	if client == nil || reflect.ValueOf(client).Kind() == reflect.Pointer && reflect.ValueOf(client).IsNil() {
		return invalid("client", "must not be nil")
	}
	if _, ring := client.(*redis.Ring); ring {
		return invalid("client", "must not be a *redis.Ring: use the client of the limiter")
	}
	return nil
}
