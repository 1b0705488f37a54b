// Package serve protects an HTTP API of your own with the limits of package
// reserve. It is middleware: a request is served when it has its turn, and refused
// with 429 when that would take too long.
//
//	limiter, err := reserve.New(client, reserve.Config{Name: "our-api", Limit: reserve.PerMinute(100).Burst(100)})
//	if err != nil {
//		return err
//	}
//	limited, err := serve.Middleware(limiter, serve.Config{
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
// come at the same time share it. A request that is refused uses no permit, and is in
// nobody's way. One whose turn comes within [Config.MaxWait] joins the queue like any
// call of the fleet, with a second round trip. It leaves the queue if its client goes
// away.
//
// Where a single limiter has a lease (reserve.Config.Lease), most requests that pass
// need no round trip.
//
// # What clients are told
//
// A refusal has Retry-After: the seconds after which the request would pass if
// nobody came before it, rounded up, and at least 1. It is no promise: the permit
// belongs to whoever comes first. Where requests may wait and come at the same moment,
// the wait of some counts others that are refused with them.
//
// RateLimit-Policy and RateLimit are those of the IETF's draft "RateLimit header
// fields for HTTP" (draft-ietf-httpapi-ratelimit-headers, 08 and later):
//
//	RateLimit-Policy: "default";q=100;w=60
//	RateLimit: "default";r=50;t=30
//
// The draft thinks of quotas that are counted in windows. A quota and a rolling limit
// are such, and other limits are buckets. A bucket is told like this, see [Quota]:
//
//	w   the seconds in which an empty bucket fills, rounded up, and at least 1
//	q   the permits that become available in w: q/w is the rate, and q is the burst
//	    unless w was rounded up. PerMinute(100).Burst(100) is q=100;w=60, and
//	    PerSecond(50), which has a burst of 1, is q=50;w=1
//	r   the whole permits that may be used at once, at most the burst
//	t   the seconds until the bucket is full, rounded up; of a refusal at most
//	    Retry-After, as the draft wants that to be no earlier
//
// For other kinds t is different. Of a quota it is the time until its next window
// begins, and of a rolling limit its length. Of a limit that warms up r is 1 or 0, and
// t is the time until the next call.
//
// X-RateLimit-Limit, -Remaining and -Reset, which no document defines, are q, r and
// the Unix time at which t is over, in seconds. Several limits ([reserve.Joint]) are
// several items of the IETF's fields. X-RateLimit has the limit of which the smallest
// part is left.
//
// RateLimit-Policy is on all answers, as it never changes. The other figures are on
// refusals, as they come with the decision. Without [Config.EveryAnswer] there are none
// on
//
//   - requests that pass
//   - refusals by several limits
//   - refusals of a cost above 1 by a quota or a rolling limit
//
// EveryAnswer asks for them with another round trip.
//
// # Clients are hostile
//
// Each key has a full bucket when it is first seen, and its state stays in Redis
// for a minute and a half at least. So a key must be something that a client cannot
// make up: an account that has logged in, or an address that your own proxy vouches
// for. A header as it came is not such a key. An empty key is refused with 400, so that
// nobody gets another limit by leaving something out. Keys of more than 512 bytes
// are hashed. Shorter ones stand in the names of Redis's keys as they are: hash
// those that are secrets.
//
// The limit counts requests that reached the middleware: put it behind what
// authenticates, and before what is expensive. Where several are nested, a request that
// an inner one refuses has used a permit of the outer ones. A Joint takes the permits of
// all limits or of none.
//
// # When Redis is away
//
// First the limiter's own policy decides ([reserve.Outage]). Under the default policy
// requests go on at this process's share of the rate. Where the limiter has no answer
// within MaxWait and a second more, the request gets 503. With [Config.PassOnError] it
// passes.
package serve
