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
	// Limiter is the limit of which every request takes one permit, or the Joint of
	// several limits, of each of which it takes one. Leave it out with Choose.
	Limiter reserve.Turns

	// Choose says which turn a request needs. It is called once for each request
	// that a client sends, redirects included, and must not change it. Several
	// goroutines may call it at a time. An error fails the request.
	Choose func(*http.Request) (Turn, error)

	// Used reads from an answer how many permits its request has used of each limit, in
	// their order: see [reserve.Reservation.Settle]. It is called for each attempt that was
	// answered, refusals included, by several goroutines at a time. A nil slice says that
	// the costs were right, and a number below 0 that the use of that limit is not known.
	//
	// Used may read the Body, if it puts another one in its place. The caller waits for
	// Redis to hear of the use. It needs a limit that has [reserve.Config.Settles].
	// Default: the costs are right.
	Used func(*http.Response) []int

	// Base sends the requests. Default [http.DefaultTransport].
	Base http.RoundTripper

	// Retry says what is sent again. Default: nothing.
	Retry Retry

	// MaxPause is the longest pause that one answer may ask for, and the longest one where
	// refusals name no moment. A longer one is cut to it, and the Logger hears of that:
	// otherwise one wrong answer could stop the fleet. The next answer may ask for another
	// pause. For the same reason Learn goes down to one permit in this time and no further.
	// Default [DefaultMaxPause].
	MaxPause time.Duration

	// Learn lets a paced limit follow what the provider tells, if the answer says how
	// many calls are allowed in which time. Limits of other kinds stay as they are; New
	// refuses such a Limiter. Of several limits those follow that [Turn.Windows] names.
	//
	// If the provider tells a lower limit than the fleet goes by, that is in force at
	// once. Towards a higher one the rate rises by a tenth a minute, up to the Ceiling.
	// What was told counts for an hour, unless it is told again.
	//
	// Some windows give all their units back at once. A burst and all that the rate
	// gives could then fall into one window. So the rate is lowered by the burst, but
	// to no less than half. The burst is lowered only where the provider's whole limit
	// is less.
	Learn bool

	// Ceiling is how far Learn may raise the rate. Default: the Limiter's own
	// limit. Its burst is not used.
	Ceiling reserve.Limit

	// Adapt hears of every answer, to find the limit of a provider that does not tell
	// it: an adaptive.Rate of the Limiter. With Choose, name it in the Turn. It must
	// not be used together with Learn, as both would set the limit.
	Adapt Adapter

	// Logger hears what an operator should know: pauses that were cut, limits
	// that changed, a limiter that could not be told. Default slog.Default().
	Logger *slog.Logger
}

// Retry says which requests are sent again, after another turn. A request must be
// safe to repeat: its method is GET, HEAD, OPTIONS, TRACE, PUT or DELETE, or it has
// the header Idempotency-Key or X-Idempotency-Key. It has no body, or one that can be
// had again ([http.Request.GetBody]). What the provider asks not to repeat is not sent
// again.
//
// A retry waits as long as the answer says, with whatever status, and for its turn. Where a refusal
// does not say, the limit itself backs off, for all calls. After other failures there is no backoff.
type Retry struct {
	// Max is how often one request is sent again. 0: not at all.
	Max int

	// MaxWait is the longest wait that a retry sits out. An answer that asks for a
	// longer one goes to the caller, and so does one that asks for more than the
	// request's deadline leaves. What the answer asks for counts, also where it is longer
	// than Config.MaxPause. 0: any wait.
	MaxWait time.Duration

	// Statuses are those from 400 to 599 after which a request is sent again, besides
	// refusals for a limit, such as 502 or 504.
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
		return invalid("Config.Used", "%v cannot be settled: set reserve.Config.Settles", limits)
	}
	if c.Learn && len(limits) > 1 {
		return invalid("Config.Learn", "needs to know which of the limits %v the provider tells: name them in Turn.Windows, with Config.Choose", limits)
	}
	if c.Learn && limits[0].Limit().Kind() != reserve.KindPaced {
		return invalid("Config.Learn", "is for paced limits, whose rate can follow, got %v of kind %v", limits[0].Limit(), limits[0].Limit().Kind())
	}
	return nil
}
