package headers

import (
	"cmp"
	"net/http"
	"time"
)

// Longest is the longest wait that Read returns, 31 days. It cuts longer waits to this, because no
// API's limit has a window of more than a month.
const Longest = 31 * 24 * time.Hour

// Advice is what a response says about the limits of its provider. The zero Advice says nothing.
type Advice struct {
	// Refused says that a limit refused the call. The status is 429, or it is 503 or 529 and the
	// response says when to try again. It may also be 403, if the response says when to try again
	// or that nothing is left, as GitHub does.
	//
	// GitHub may refuse with a 403 that names the reason only in its body. Such a response looks
	// like denied access, and is not Refused.
	Refused bool

	// After is how long to wait before the next call: as long as the provider says, or else until
	// the limit that is used up resets. 0: no wait, or the response does not say, or the call was
	// not Refused.
	After time.Duration

	// Named says that the response names the wait, with Retry-After or a similar header. The wait
	// may be 0.
	Named bool

	// Repeat is how long to wait before this call is sent again, from Retry-After or a similar
	// header, with any status. If the call was not Refused, it does not concern other calls.
	Repeat time.Duration

	// Cached says that the response comes from a cache. It is old and says nothing about the
	// limits, so no other field is set.
	Cached bool

	// Final says that the provider asks not to repeat this call, for example because the account
	// has no credit.
	Final bool

	// Reason is why the call was refused, if the provider names it, such as "global-rate".
	Reason string

	// Windows are the limits that the response states, in a fixed order: by family of headers, and
	// by name in each family.
	Windows []Window
}

// Window is one limit of a provider, and what is left of it.
type Window struct {
	// Name is the provider's name, in lower case: "requests", "tokens", "input-tokens", "core", the
	// name of a policy. Empty: the limit has no name.
	Name string

	// Unit is what the limit counts: "requests", "tokens", or another unit that the provider names.
	// Empty: unknown.
	Unit string

	// Limit is how many units one Period allows. 0: unknown.
	Limit float64

	// Remaining is how many units are left. -1: unknown.
	Remaining float64

	// Reset is how long it takes until all units are available again. 0: unknown, or now.
	Reset time.Duration

	// Period is the length of the window. 0: unknown.
	Period time.Duration

	// Refills says how units become available again. True: one by one, as in a bucket that is full
	// at Reset, so some calls may be made earlier. False: all at once at Reset, or unknown.
	Refills bool
}

// The units that this package knows. Any other unit is a provider's own word.
const (
	Requests = "requests"
	Tokens   = "tokens"
)

// Rate is what the window allows in the long run, in units per second: Limit divided by Period. 0:
// unknown.
func (w Window) Rate() float64 {
	if w.Limit <= 0 || w.Period <= 0 {
		return 0
	}
	return w.Limit / w.Period.Seconds()
}

// Wait is how long it takes until n units are available, for a window that is used up. 0: some
// units are left, or the wait is unknown.
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

// Read returns what a response with this status and header says. The last argument is the moment at
// which the response came, usually [time.Now]. Read does not change the header and never fails. It
// is safe for concurrent use.
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

// cached reports whether a response comes from a cache: of the client, which marks it, or of a
// proxy, which states its age.
func cached(header http.Header) bool {
	age, ok := number(header.Get("Age")) // some caches send 0 for a response that was not cached
	return ok && age > 0 || header.Get("X-From-Cache") != ""
}

// overloaded is the status that Anthropic and some other providers use in place of 503.
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

// mostWindows bounds what a hostile response costs callers that look at its windows.
const mostWindows = 32
