package headers

import (
	"cmp"
	"net/http"
	"time"
)

// Longest is the longest wait that is believed, 31 days. A longer one is cut to it, as
// no limit for the calls of an API has a window of more than a month.
const Longest = 31 * 24 * time.Hour

// Advice is what an answer says about the limits of its provider. The zero
// Advice is an answer that says nothing.
type Advice struct {
	// Refused: the call was refused because of a limit. That is status 429, and 503
	// or 529 where the answer says when to come back. It is also 403 where the answer
	// says that, or that nothing is left, as GitHub does.
	//
	// GitHub may refuse with a 403 that says so in its body alone. Here such an answer
	// looks like one that denies access, and is not Refused.
	Refused bool

	// After is how long to wait before the next call: as the provider says it, or else
	// until the limit that is used up begins anew. 0: now, or the answer does not say, or the
	// call was not Refused.
	After time.Duration

	// Named: the answer says when to come back, with Retry-After and its like, be it now.
	Named bool

	// Repeat is how long to wait before this call is sent again, as Retry-After and its like
	// say it with any status: it is not about the calls of others where it was not Refused.
	Repeat time.Duration

	// Cached: the answer comes from a cache, so it is old. It says nothing of the limits:
	// nothing else is set.
	Cached bool

	// Final: the provider asks not to repeat this call at all, for example
	// because the account has no credit.
	Final bool

	// Reason is why the call was refused, where the provider names it, such as
	// "global-rate".
	Reason string

	// Windows are the limits that the answer tells, in a fixed order: by family
	// of fields, and by name in each.
	Windows []Window
}

// Window is what one limit allows and what is left of it.
type Window struct {
	// Name is the provider's, in small letters: "requests", "tokens",
	// "input-tokens", "core", the name of a policy. Empty where there is none.
	Name string

	// Unit is what is counted: "requests", "tokens", or another unit that the
	// provider names. Empty where it is not known.
	Unit string

	// Limit is how many units one Period allows. 0: unknown.
	Limit float64

	// Remaining is how many units are left. -1: unknown.
	Remaining float64

	// Reset is how long it takes until all units are there again. 0: unknown, or now.
	Reset time.Duration

	// Period is the length of the window. 0: unknown.
	Period time.Duration

	// Refills says how units come back. True: one by one, as in a bucket that is full
	// at Reset, so calls may be made before. False: all at once at Reset, or it is not
	// known.
	Refills bool
}

// The units whose meaning is known. Any other unit is a provider's own word.
const (
	Requests = "requests"
	Tokens   = "tokens"
)

// Rate is what the window allows in the long run, in units per second: Limit by
// Period. 0: unknown.
func (w Window) Rate() float64 {
	if w.Limit <= 0 || w.Period <= 0 {
		return 0
	}
	return w.Limit / w.Period.Seconds()
}

// Wait is how long it takes until n units can be had, for a window that is used up.
// 0: it is not used up, or it does not say.
func (w Window) Wait(n int) time.Duration {
	switch {
	case w.Remaining < 0 || w.Remaining >= 1:
		return 0
	case !w.Refills:
		return w.Reset
	case w.Limit <= 0:
		return 0 // how fast it fills is not known
	}
	return time.Duration(float64(w.Reset) * min(1, float64(n)/w.Limit))
}

// Read tells what an answer with this status and header says. The last argument is the
// moment at which the answer came, most often [time.Now]. Read does not change the header
// and never fails. It is safe for concurrent use.
func Read(status int, header http.Header, now time.Time) Advice {
	if cached(header) {
		return Advice{Cached: true}
	}
	clock := providerClock(header, now)
	a := Advice{
		Final:   header.Get("X-Should-Retry") == "false" || header.Get("Stripe-Should-Retry") == "false",
		Windows: windows(header, clock),
	}
	after, said := retryAfter(header, clock)
	a.Named, a.Repeat = said, after
	var over bool
	var anew time.Duration
	for _, w := range a.Windows {
		if w.Remaining >= 0 && w.Remaining < 1 && !w.Refills {
			over, anew = true, max(anew, w.Reset)
		}
	}
	switch status {
	case http.StatusTooManyRequests:
		a.Refused = true
	case http.StatusServiceUnavailable, overloaded:
		a.Refused = said
	case http.StatusForbidden:
		a.Refused = said || over
	}
	if !a.Refused {
		return a
	}
	if said {
		a.After = after
	} else {
		a.After = anew
	}
	a.Reason = word(cmp.Or(header.Get("Stripe-Rate-Limited-Reason"), header.Get("Ratelimit-Reason")))
	return a
}

// cached reports whether an answer comes from a cache: of a client, which marks it, or of one on
// the way, which says its age.
func cached(header http.Header) bool {
	age, ok := number(header.Get("Age")) // some that did not have it say 0
	return ok && age > 0 || header.Get("X-From-Cache") != ""
}

// overloaded is what Anthropic and some others answer in place of 503.
const overloaded = 529

func windows(header http.Header, clock time.Time) []Window {
	var all []Window
	for _, family := range []func(http.Header, time.Time) []Window{
		structured, triplets, named, anthropic, shopify, hubspot,
	} {
		all = append(all, family(header, clock)...)
	}
	return all[:min(len(all), mostWindows)]
}

// mostWindows bounds what a hostile answer costs those who look at its windows.
const mostWindows = 32
