package inbound

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// Config says how requests are limited. The zero value suits one limit for all requests together.
type Config struct {
	// Key returns the tenant, account or address whose limit a request counts against, see
	// [reserve.Limiter.For]. It is called once per request, unless all costs are 0, by many
	// goroutines at a time. If it
	// returns an error or an empty key, the client gets 400, without the text of the error. Keys of
	// more than 512 bytes are hashed. Default: none, all requests share the limit.
	Key func(*http.Request) (string, error)

	// Keyed is the number of limits, from the first on, that the Key applies to. All requests share
	// the others. Default 1: the first alone.
	Keyed int

	// Cost returns how many permits a request needs of each limit. With a cost of 0 it passes
	// without a permit. If the cost is above the limit's burst, the client gets 400; below 0, it
	// gets 500. Many goroutines call it at a time. Default: 1.
	Cost func(*http.Request) int

	// Costs is for several limits whose costs differ: one for each, in their order. A
	// limit whose cost is 0 is not needed. It must not be set together with Cost.
	Costs func(*http.Request) []int

	// MaxWait is how long a request may wait for its turn, up to an hour. If its turn would come
	// later, or after the deadline of the request's context, the request is refused at once.
	// Default 0: refused unless its turn is now. Redis may take one second more to answer.
	MaxWait time.Duration

	// Headers says which headers tell clients of the limit. Default [HeadersIETF].
	// A refusal always has Retry-After.
	Headers Headers

	// EveryAnswer sets the figures of the limits on all responses, also on responses to requests
	// that pass, and on all refusals. If the decision does not contain the figures, a response
	// costs another round trip, which it shares with no other. If Redis does not answer that
	// request, there are no figures, and the decision is unchanged.
	EveryAnswer bool

	// Policies name the limits in the IETF's headers and in problem documents, in their
	// order: up to 64 printable ASCII characters each. Default "default", and for several
	// limits "default-1", "default-2" and so on.
	Policies []string

	// Refuse answers a request that is refused, also while the limit is stopped. All headers of the limit are already set, also
	// Retry-After, but not the status. Default: 429 with a problem document (RFC 9457).
	Refuse http.Handler

	// PassOnError lets a request pass if the limiter cannot decide, for any error but [ErrInvalid]:
	// Redis is unreachable and the policy has no answer, or the limiter is closed. Nothing is limited then. Default: 503 with
	// Retry-After: 1.
	PassOnError bool

	// Logger gets a line when the limiter cannot decide on requests, at most once a second. Default
	// slog.Default().
	Logger *slog.Logger
}

func defaultPolicies(limits int) []string {
	if limits == 1 {
		return []string{"default"}
	}
	names := make([]string, limits)
	for i := range names {
		names[i] = fmt.Sprintf("default-%d", i+1)
	}
	return names
}

const (
	longestPolicy = 64
	longestWait   = time.Hour
)

// ErrInvalid says that a setting is wrong; the text names it and its value.
var ErrInvalid = reserve.ErrInvalid

func invalid(field, format string, args ...any) error {
	return fmt.Errorf("inbound: %w %s: %s", ErrInvalid, field, fmt.Sprintf(format, args...))
}

// withDefaults fills in the defaults for this number of limits.
func (c Config) withDefaults(limits int) Config {
	if c.Keyed == 0 {
		c.Keyed = 1
	}
	if c.Headers == "" {
		c.Headers = HeadersIETF
	}
	if c.Policies == nil {
		c.Policies = defaultPolicies(limits)
	}
	if c.Refuse == nil {
		c.Refuse = refusal(c.Policies)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c Config) validate(limits int) error {
	if c.Keyed < 0 || c.Keyed > limits {
		return invalid("Config.Keyed", "must be from 1 to the number of limits, %d, or 0 for the default, got %d", limits, c.Keyed)
	}
	if c.Cost != nil && c.Costs != nil {
		return invalid("Config.Costs", "must not be set together with Config.Cost")
	}
	if c.MaxWait < 0 || c.MaxWait > longestWait {
		return invalid("Config.MaxWait", "must be from 0 to %v, got %v", longestWait, c.MaxWait)
	}
	if err := c.Headers.validate(); err != nil {
		return err
	}
	if len(c.Policies) != limits {
		return invalid("Config.Policies", "must be one for each of the %d limits, got %d", limits, len(c.Policies))
	}
	for _, name := range c.Policies {
		if name == "" || len(name) > longestPolicy {
			return invalid("Config.Policies", "must have from 1 to %d bytes each, got %d", longestPolicy, len(name))
		}
		if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
			return invalid("Config.Policies", "must be printable ASCII, got %q", name)
		}
	}
	return nil
}
