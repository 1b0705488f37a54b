package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// Config says how requests are limited. The zero value is good for one limit for
// all requests together.
type Config struct {
	// Key says whose request it is: the tenant, account or address that has a line
	// of its own, see reserve.Limiter.For. It is called once per request, by many
	// goroutines at a time. A request with an error or an empty key is answered with
	// 400; the client does not see the error. Keys of more than 512 bytes are hashed.
	// Default: none, all requests share the limit.
	Key func(*http.Request) (string, error)

	// Cost is how many permits a request needs. One of 0 passes and consumes
	// nothing, one above the limit's burst is answered with 400, and one below 0 with
	// 500. Default: 1.
	Cost func(*http.Request) int

	// MaxWait is how long a request may wait for its turn, up to an hour. One whose
	// turn would come later, or after the deadline of the request's context, is
	// refused at once. Default 0: refused unless its turn is now. Time in which Redis
	// answers is not counted, up to a second.
	MaxWait time.Duration

	// Headers says which headers tell clients of the limit. Default [HeadersIETF].
	// A refusal always has Retry-After.
	Headers Headers

	// EveryAnswer tells the figures of the limit also to requests that pass. It
	// costs each of them a second round trip, which it does not share. Where Redis
	// does not answer that one, they have no figures, and pass.
	EveryAnswer bool

	// Policy names the limit in the IETF's headers and in problem documents: up to
	// 64 printable ASCII characters. Default "default".
	Policy string

	// Refuse answers a request that has no turn. All headers of the limit are set
	// already, Retry-After too, and no status is. Default: 429 with a problem
	// document (RFC 9457).
	Refuse http.Handler

	// PassOnError lets a request pass that the limiter could not decide on, since
	// Redis is away and its policy has no answer, or the limiter is closed. Nothing
	// is limited then. Default: 503 with Retry-After: 1.
	PassOnError bool

	// Logger hears of requests that the limiter could not decide on, once a second at
	// the most. Default slog.Default().
	Logger *slog.Logger
}

const (
	defaultPolicy = "default"
	longestPolicy = 64
	longestWait   = time.Hour
)

// ErrInvalid says that a setting is wrong; the text names it and its value.
var ErrInvalid = errors.New("invalid")

func invalid(field, format string, args ...any) error {
	return fmt.Errorf("serve: %w %s: %s", ErrInvalid, field, fmt.Sprintf(format, args...))
}

func (c Config) withDefaults() Config {
	if c.Cost == nil {
		c.Cost = func(*http.Request) int { return 1 }
	}
	if c.Headers == "" {
		c.Headers = HeadersIETF
	}
	if c.Policy == "" {
		c.Policy = defaultPolicy
	}
	if c.Refuse == nil {
		c.Refuse = refusal(c.Policy)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c Config) validate() error {
	if c.MaxWait < 0 || c.MaxWait > longestWait {
		return invalid("Config.MaxWait", "must be from 0 to %v, got %v", longestWait, c.MaxWait)
	}
	if err := c.Headers.validate(); err != nil {
		return err
	}
	if len(c.Policy) > longestPolicy {
		return invalid("Config.Policy", "must have at most %d bytes, got %d", longestPolicy, len(c.Policy))
	}
	for _, b := range []byte(c.Policy) {
		if b < ' ' || b > '~' {
			return invalid("Config.Policy", "must be printable ASCII, got %q", c.Policy)
		}
	}
	return nil
}
