package transport

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// DefaultMaxPause is the longest pause of a Config that does not set one.
const DefaultMaxPause = time.Hour

// Config says what requests wait for. Limiter or Choose is required.
type Config struct {
	// Limiter that every request takes one permit of, or the Joint of several that it takes
	// one permit of each of. Leave it out with Choose.
	Limiter reserve.Turns

	// Choose says which turn a request needs. It is called once for each request
	// that a client sends, redirects included, and must not change it. An error
	// fails the request.
	Choose func(*http.Request) (Turn, error)

	// Used says what a request has used of each limit in truth, in their order, by its
	// answer: see [reserve.Reservation.Settle]. It is asked for each attempt that was
	// answered, refusals included; nil says that the costs were right, and below 0 that
	// of one limit is not known. It may read the Body, if it puts another one in its
	// place. The caller waits for Redis to hear of it. It is for limits that have
	// [reserve.Config.Settles]. Default: costs are right.
	Used func(*http.Response) []int

	// Base sends the requests. Default [http.DefaultTransport].
	Base http.RoundTripper

	// Retry says what is sent again. Default: nothing.
	Retry Retry

	// MaxPause is the longest pause that one answer may ask for. A longer one is
	// cut to it, and the Logger told: whoever answers could stop the fleet
	// otherwise. The next answer may ask for more. For the same reason Learn goes
	// down to one permit in this time and no further. Default [DefaultMaxPause].
	MaxPause time.Duration

	// Learn lets a paced limit follow what the provider tells, if the answer says how
	// many calls which time allows. Others stay as they are. Of several limits those
	// follow that [Turn.Windows] names.
	//
	// A limit below the one that the fleet goes by counts at once. Towards a
	// higher one it is raised by a tenth a minute, and never above the Limiter's
	// own. What was told counts for an hour, if nothing is told again; so the end
	// of all processes is the end of it.
	//
	// Where units come back all at once, the burst is taken out of what the
	// window allows, up to half of it: both could fall into one. The burst is
	// lowered only where the provider's whole limit is less.
	Learn bool

	// Ceiling is how far Learn may raise the rate. Default: the Limiter's own
	// limit. Its burst is not used.
	Ceiling reserve.Limit

	// Adapt hears of every answer, so that the limit of a provider that does not tell
	// it can be found: an adaptive.Rate of the Limiter. With Choose, name it in the
	// Turn. It must not be used together with Learn, as both would set the limit.
	Adapt Adapter

	// Logger hears what an operator should know: pauses that were cut, limits
	// that changed, a limiter that could not be told. Default slog.Default().
	Logger *slog.Logger
}

// Retry says which requests are sent again, after another turn. They must be
// safe to repeat (GET, HEAD, OPTIONS, TRACE, PUT, DELETE, or with the header
// Idempotency-Key or X-Idempotency-Key), and have no body or one that can be had
// again ([http.Request.GetBody]). What the provider asks not to repeat is not.
//
// There is no backoff: a retry waits as long as the answer says, and for its
// turn.
type Retry struct {
	// Max is how often one request is sent again. 0: not at all.
	Max int

	// MaxWait is the longest wait that is sat out. An answer that asks for more
	// is the caller's, and so is one that asks for more than the request's
	// deadline leaves. 0: any.
	MaxWait time.Duration

	// Statuses that are repeated besides refusals for a limit, such as 502 or 504.
	Statuses []int
}

// ErrInvalid says that a setting is wrong; the text names it and its value.
var ErrInvalid = errors.New("invalid")

func invalid(field, format string, args ...any) error {
	return fmt.Errorf("transport: %w %s: %s", ErrInvalid, field, fmt.Sprintf(format, args...))
}

func (c Config) withDefaults() Config {
	if c.Base == nil {
		c.Base = http.DefaultTransport
	}
	if c.MaxPause == 0 {
		c.MaxPause = DefaultMaxPause
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Limiter == nil && c.Choose == nil:
		return invalid("Config.Limiter", "must be set: it gives the turns; or set Config.Choose")
	case c.Limiter != nil && c.Choose != nil:
		return invalid("Config.Choose", "must not be set together with Config.Limiter: name the limiter in the Turn")
	case c.Adapt != nil && c.Choose != nil:
		return invalid("Config.Adapt", "must not be set together with Config.Choose: name it in the Turn")
	case c.Adapt != nil && c.Learn:
		return invalid("Config.Adapt", "must not be set together with Config.Learn: both would set the limit")
	case c.MaxPause < 0:
		return invalid("Config.MaxPause", "must be positive, or 0 for the default, got %v", c.MaxPause)
	case c.Retry.Max < 0:
		return invalid("Config.Retry.Max", "must be at least 0, got %d", c.Retry.Max)
	case c.Retry.MaxWait < 0:
		return invalid("Config.Retry.MaxWait", "must be positive, or 0 for any wait, got %v", c.Retry.MaxWait)
	}
	for _, status := range c.Retry.Statuses {
		if status < 400 || status > 599 {
			return invalid("Config.Retry.Statuses", "must be failures from 400 to 599, got %d", status)
		}
	}
	if c.Limiter != nil {
		if err := c.validateFor(c.Limiter.Limits()); err != nil {
			return err
		}
	}
	if c.Ceiling == (reserve.Limit{}) {
		return nil
	}
	if !c.Learn {
		return invalid("Config.Ceiling", "is only for Config.Learn, got %v: set that, or leave the ceiling out", c.Ceiling)
	}
	if err := c.Ceiling.Validate(); err != nil {
		return invalid("Config.Ceiling", "%v", err)
	}
	return nil
}

// validateFor checks what not all limits can do.
func (c Config) validateFor(limits []*reserve.Limiter) error {
	if c.Used != nil && !slices.ContainsFunc(limits, (*reserve.Limiter).Settles) {
		return invalid("Config.Used", "%v can not be settled: set reserve.Config.Settles", limits)
	}
	if c.Learn && len(limits) > 1 {
		return invalid("Config.Learn", "needs to know which of the limits %v the provider tells: name them in Turn.Windows, with Config.Choose", limits)
	}
	if c.Learn && limits[0].Limit().Kind() != reserve.KindPaced {
		return invalid("Config.Learn", "is for paced limits, whose rate can follow, got %v of kind %v", limits[0].Limit(), limits[0].Limit().Kind())
	}
	return nil
}
