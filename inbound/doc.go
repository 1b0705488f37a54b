// Package inbound protects your own HTTP API with the limits of package reserve. It is
// middleware: it serves a request when it has its turn, and refuses it with 429 if that
// would take too long.
//
//	limiter, err := reserve.New(client, reserve.Config{Name: "our-api", Limit: reserve.PerMinute(100).Burst(100)})
//	if err != nil {
//		return err
//	}
//	limited, err := inbound.Middleware(limiter, inbound.Config{
//		Key: func(r *http.Request) (string, error) { return tenantOf(r) },
//	})
//	if err != nil {
//		return err
//	}
//	return http.ListenAndServe(address, limited(mux))
//
// # What a request costs
//
// One round trip to Redis decides, and says how long the wait would be. Requests that
// arrive at the same time share it. A refused request uses no permit. If its turn comes
// within [Config.MaxWait], the request joins the queue like any call of the fleet, with a
// second round trip. It leaves the queue if its client disconnects.
//
// If a single limiter has a lease (reserve.Config.Prefetch), most requests that pass
// need no round trip.
//
// # What clients get
//
// A refusal has Retry-After: the seconds after which the request would pass if
// no other request came before it, rounded up, and at least 1. It is not a promise: the
// next request gets the permit. If requests may wait and arrive at the same moment, the
// wait of some includes others that are refused with them.
//
// RateLimit-Policy and RateLimit are those of the IETF's draft "RateLimit header
// fields for HTTP" (draft-ietf-httpapi-ratelimit-headers, 08 and later):
//
//	RateLimit-Policy: "default";q=100;w=60
//	RateLimit: "default";r=50;t=30
//
// The draft describes quotas that are counted in windows, like a quota and a rolling limit
// here. Other limits are buckets. For a bucket the parameters mean, see [Quota]:
//
//	w   the seconds in which an empty bucket fills, rounded up, and at least 1
//	q   the permits that become available in w: q/w is the rate, and q is the burst
//	    unless w was rounded up. PerMinute(100).Burst(100) is q=100;w=60, and
//	    PerSecond(50), which has a burst of 1, is q=50;w=1
//	r   the whole permits that may be used at once, at most the burst
//	t   the seconds until the bucket is full, rounded up; on a refusal at most
//	    Retry-After, because the draft forbids an earlier Retry-After
//
// For other kinds t is different. For a quota it is the time until its next window
// begins, and for a rolling limit the length of the window. For a limit with warm-up, r
// is 1 or 0, and t is the time until the next call.
//
// X-RateLimit-Limit, -Remaining and -Reset, which no document defines, are q, r and
// the Unix time, in seconds, of [Quota.Reset]: of a bucket, when it is full, also on a
// refusal. Each call that uses permits moves it. For a rolling limit nobody knows
// that moment, so it is one window after each response. Several limits ([reserve.Joint]) are
// several items of the IETF's fields. X-RateLimit describes the limit with the smallest
// remaining fraction.
//
// RateLimit-Policy is on all responses. The other figures are on refusals, because they
// come with the decision. Without [Config.EveryAnswer] there are no figures on
//
//   - requests that pass
//   - refusals by several limits
//   - refusals of a cost above 1 by a quota or a rolling limit
//
// EveryAnswer reads them with another round trip.
//
// # Clients are hostile
//
// Each new key has a full bucket, and its state stays in Redis until about half a minute after
// its bucket is full again. So a key must be something that a client cannot invent: an account that has
// logged in, or an address that your own proxy sets. Do not use a header that the client
// can set. A request with an empty key gets 400, so that a client cannot choose another
// limit by omitting something. Keys of more than 512 bytes are hashed. Redis's key names
// contain shorter keys unchanged, so hash secrets.
//
// The limit counts requests that reached the middleware: put it after authentication, and
// before expensive work. Do not nest several: a request that an inner middleware refuses
// has used a permit of the outer ones. A Joint takes the permits of all limits or of none.
//
// # When Redis is unreachable
//
// First the limiter's own policy decides ([reserve.Outage]). Under the default policy,
// requests continue at this process's part of the rate. If the limiter has no answer
// within MaxWait and a second more, the request gets 503. With [Config.PassOnError] it
// passes.
package inbound
