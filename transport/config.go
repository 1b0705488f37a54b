package transport

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport/bodies"
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
	Choose func(*http.Request) (Need, error)

	// Used reads from a response how many permits its request has used of each limit, in their
	// order: see [reserve.Reservation.Settle]. It is called for each attempt with a response, also
	// for refusals, by several goroutines at a time. A nil slice means that the costs were right,
	// and a number below 0 that the use of that limit is not known.
	//
	// Used may read the Body, if it replaces it with another one. The caller waits until Redis has
	// received the use. It needs a limit that has [reserve.Config.Settles]. Default: the costs are
	// right.
	Used func(*http.Response) []int

	// Tokens returns how many permits a request has used of each limit, in their order, from what
	// the body of its response says of its tokens. Numbers below 0 and a nil slice are as in Used.
	// It is called when the caller has read the body to its end, or has closed it, by several
	// goroutines at a time. The caller gets all bytes as they come, also those of streams, and
	// waits for nothing.
	//
	// Tokens gets the largest counts that the body has stated so far. A stream that was cut is not
	// Complete. If the body does not state the prompt, the estimate stays: Tokens is then called only with TokensUnstated.
	// A response of status 400 or above has used nothing: the Usage is 0. Return nil for it if
	// failed requests count, as at OpenAI. It needs a limit that has [reserve.Config.Settles].
	// Default: the costs are right.
	Tokens func(*http.Response, bodies.Usage) []int

	// TokensUnstated calls Tokens also for a response that does not state its prompt. Its Usage is not Known.
	TokensUnstated bool

	// Early is Tokens as soon as a stream has stated the tokens of its prompt, which may be long before its
	// end. Return a number below 0 for each limit whose use is not certain yet, such as that of the output
	// while it is less than the estimate. Early is called again once a second while more of the stream comes. Each of
	// these later numbers counts only if it is higher than what the limit counts already. Default: costs are settled at the end.
	Early func(*http.Response, bodies.Usage) []int

	// Estimate returns what a request costs at each limit of its turn, in their order, by what is known when it has
	// its turn, which may be long after Choose. Numbers below 0 and a nil slice mean that its Costs are right. The
	// limits count the new numbers at once, and the request does not wait for that. Default: the Costs are right.
	Estimate func(*http.Request) []int

	// API is the provider whose rules say what a refusal means: see [bodies.Classify]. The body of a
	// response of status 400 or above is read up to [bodies.MostRead] before the caller gets it, all
	// of it. Failures that a body of status 200 reports count, too, once the caller has read them.
	//
	// A response then also tells an SDK what to do. After a refusal that no retry can heal it has
	// X-Should-Retry: false. After one for which the limit is paused it has Retry-After-Ms: 1, so
	// that the SDK comes back at once, and waits for its turn in the queue. If the account or a
	// quota is used up, the limits are stopped: see [reserve.Limiter.Stop]. A refusal
	// for the account stops the limits of Need.Account, and a refusal for the model the others.
	// Requests then fail with [reserve.ErrExhausted]. If nobody knows the end, one request of the fleet
	// probes every five minutes, and its success ends the stop. Default: statuses and headers decide.
	API bodies.API

	// Refused reports whether a response is a refusal for a limit that its status and headers do not tell,
	// as GraphQL APIs send it with status 200. It also returns how long to wait, or 0 if the response does
	// not say. It is called for each attempt that is no refusal already, by several goroutines at a time.
	// It may read the Body, if it replaces it with another one. Default: statuses and headers decide.
	Refused func(*http.Response) (refused bool, after time.Duration)

	// Levels lets the limit continue with what responses say is left, for the whole fleet: see
	// [reserve.Limiter.Told]. So calls of other programs on the same account count, too. That
	// number is lowered by the costs of requests under way that this client sent after the answered one. A tenth of a
	// bucket is left to calls of others: if less is left, the limit is paused until that comes back. Permits that are left
	// in a window are spread over its rest. Remaining output tokens do not count. No response raises what is left at once.
	// If responses say for a minute that more is left than the fleet counts, by a tenth of the burst, the fleet
	// follows: each process by its part.
	// With several limits, the limits that [Need.Windows] names follow.
	Levels bool

	// Base sends the requests. A request costs nothing at limits that have [reserve.Config.Settles] if nothing was sent:
	// net/http had no connection for it, or the error has a method Unsent(). Default [http.DefaultTransport].
	Base http.RoundTripper

	// Retry says which requests are retried. Default: none.
	Retry Retry

	// MaxPause is the longest pause that one response may cause, also by refusals that name no
	// moment. A longer pause is shortened to it, and the Logger gets a line: otherwise one wrong
	// response could stop the fleet. The next response may ask for another pause. For the same
	// reason Learn lowers the rate to one permit per MaxPause at most. If the limit has a shorter
	// [reserve.Config.MaxPause], that counts. Hard stops are not shortened. Default [DefaultMaxPause].
	MaxPause time.Duration

	// Learn lets a paced limit follow the limit that responses state, if they say how many calls
	// are allowed in which time. Limits of other kinds do not change; New refuses such a Limiter.
	// With several limits, the limits that [Need.Windows] names follow.
	//
	// If responses state a lower limit than the fleet's, it is in force at once. Towards a higher
	// limit, the rate rises to the Limiter's own within a minute, and beyond that by a tenth per
	// minute, up to the Ceiling. A stated limit counts for an hour, unless it is stated again.
	//
	// Bodies of Shopify state the limit in force, in points ("points" in [Need.Windows]). The rate follows it at
	// once, down and up to the Ceiling. If the Limiter's burst is less than its rate brings in 20 s, a part of
	// each stated bucket, up to a tenth, stays free for requests that arrive early. The burst rises only to the
	// Limiter's own.
	//
	// With API, also overloaded providers lower the limit. Each process looks at its last 20 responses, divided by
	// the number of processes, but at 5 or more. If at least two of them, and more than a tenth, say that the
	// provider is overloaded, the rate is halved, at most once per 4 s. It falls to an eighth of the Limiter's
	// own. Per 10 s without such a response it grows by a quarter of the Limiter's own, and at most doubles.
	//
	// OpenAI's slow_down halves the rate at once. Above a million permits per minute, the rate then grows to 1.5
	// times itself per 15 minutes, as OpenAI's page "Error codes" of 2026 asks for.
	//
	// Some windows return all their units at once. A burst and all permits of the rate could then
	// fall into one window. So the rate is lowered by the burst, but to no less than half. The
	// burst is lowered only if the provider's whole limit is smaller.
	Learn bool

	// Ceiling is how far Learn may raise the rate. Default: the Limiter's own
	// limit. Its burst is not used.
	Ceiling reserve.Limit

	// Share is the part of a stated limit that Learn follows, above 0 and at most 1, if others use the limit, too.
	// Default: 1.
	Share float64

	// Adapt gets the result of every call, to find the limit of a provider that does not state it:
	// an adaptive.Rate of the Limiter. With Choose, name it in the Need. It must not be used
	// together with Learn, because both would set the limit.
	Adapt Adapter

	// Logger gets what an operator should know: pauses that were shortened, limits that changed,
	// and limiters that did not answer. Default slog.Default().
	Logger *slog.Logger
}

// Retry says which requests are retried, after another turn. A request must be safe to repeat: its
// method is GET, HEAD, OPTIONS, TRACE, PUT or DELETE, or it has the header Idempotency-Key or
// X-Idempotency-Key. It has no body, or its body is available again ([http.Request.GetBody]). If
// the provider asks not to repeat a request, it is not retried.
//
// A retry waits as long as the response says, whatever its status, and for its turn. If a refusal
// does not say how long, the limit itself backs off, for all calls. After other failures there is
// no backoff.
type Retry struct {
	// Max is how often one request is retried. 0: not at all.
	Max int

	// MaxWait is the longest wait before a retry. A response that asks for a longer wait goes to
	// the caller, and so does a response that asks for more time than the request's deadline
	// leaves. The wait that the response asks for counts, also if it is longer than
	// Config.MaxPause. 0: any wait.
	MaxWait time.Duration

	// Statuses are statuses from 400 to 599, such as 502 or 504, after which a request is retried.
	// Refusals for a limit are always retried.
	Statuses []int
}

// ErrInvalid says that a setting is wrong; the text names it and its value.
var ErrInvalid = reserve.ErrInvalid

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
	if c.Share == 0 {
		c.Share = 1
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
		return invalid("Config.Choose", "must not be set together with Config.Limiter: return it in the Need")
	case c.Adapt != nil && c.Choose != nil:
		return invalid("Config.Adapt", "must not be set together with Config.Choose: name it in the Need")
	case c.Used != nil && c.Tokens != nil:
		return invalid("Config.Tokens", "must not be set together with Config.Used: both would settle the costs")
	case c.Early != nil && c.Tokens == nil:
		return invalid("Config.Early", "must be set together with Config.Tokens, which settles the rest")
	case c.Estimate != nil && c.Tokens == nil:
		return invalid("Config.Estimate", "must be set together with Config.Tokens, which settles the real cost")
	case c.API != "" && !c.API.Known():
		return invalid("Config.API", "must be one of package bodies, such as %q, got %q", bodies.Anthropic, c.API)
	case c.Adapt != nil && c.Learn:
		return invalid("Config.Adapt", "must not be set together with Config.Learn: both would set the limit")
	case !(c.Share >= 0 && c.Share <= 1):
		return invalid("Config.Share", "must be above 0 and at most 1, or 0 for 1, got %v", c.Share)
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

// validateFor checks the settings that only some kinds of limits allow.
func (c Config) validateFor(limits []*reserve.Limiter) error {
	if settles := slices.ContainsFunc(limits, (*reserve.Limiter).Settles); !settles && c.Used != nil {
		return invalid("Config.Used", "%v cannot be settled: set reserve.Config.Settles", limits)
	} else if !settles && c.Tokens != nil {
		return invalid("Config.Tokens", "%v cannot be settled: set reserve.Config.Settles", limits)
	}
	if c.Learn && len(limits) > 1 {
		return invalid("Config.Learn", "cannot tell which of the limits %v the provider states: name them in Need.Windows, with Config.Choose", limits)
	}
	if c.Learn && limits[0].Limit().Kind() != reserve.KindPaced {
		return invalid("Config.Learn", "is for paced limits, whose rate can follow, got %v of kind %v", limits[0].Limit(), limits[0].Limit().Kind())
	}
	return nil
}
