// Package serve protects an HTTP API of your own with the limits of package
// reserve. It is middleware: a request is served when it has its turn, and refused
// with 429 when that would take too long.
//
//	limited, err := serve.Middleware(limiter, serve.Config{
//		Key: func(r *http.Request) (string, error) { return tenantOf(r) },
//	})
//	...
//	http.ListenAndServe(address, limited(mux))
//
// # What a request costs
//
// One round trip to Redis, which those that come at the same time share, decides
// and says how long the wait would be. A request that is refused consumes no
// permit, and is in nobody's way. One whose turn comes within [Config.MaxWait] joins
// the queue like any call of the fleet, with a second round trip, and leaves it if its
// client goes away.
//
// Where a single limiter has a lease (reserve.Config.Lease), most requests that pass
// need no round trip.
//
// # What clients are told
//
// A refusal has Retry-After: the seconds after which the request would pass if
// nobody came before it, rounded up, and at least 1. Of requests that may wait and come
// at the same moment, some count others that are refused with them. It is no promise: the
// permit belongs to whoever comes first.
//
// RateLimit-Policy and RateLimit are those of the IETF's draft "RateLimit header
// fields for HTTP" (draft-ietf-httpapi-ratelimit-headers, 08 and later):
//
//	RateLimit-Policy: "default";q=100;w=60
//	RateLimit: "default";r=50;t=30
//
// The draft thinks of quotas that are counted in windows. A quota and a rolling limit
// are that, and other limits are buckets. This is how these are told, see [Quota]:
//
//	w   the seconds in which an empty bucket fills, rounded up, and at least 1
//	q   the permits that become available in w: q/w is the rate, and q is the burst
//	    unless w was rounded up. PerMinute(100).Burst(100) is q=100;w=60, and
//	    PerSecond(50), which has a burst of 1, is q=50;w=1
//	r   the whole permits that may be used at once, at most the burst
//	t   the seconds until the bucket is full, rounded up; of a refusal at most
//	    Retry-After, as the draft wants that to be no earlier
//
// Of a quota t is the time until its next window begins, of a rolling limit its length,
// and of one that warms up, where r is 1 or 0, the time until the next call.
//
// Several limits ([reserve.Joint]) are several items of the IETF's fields, and
// X-RateLimit has the one of which the smallest part is left.
//
// X-RateLimit-Limit, -Remaining and -Reset, which no document defines, are q, r and
// the Unix time at which t is over, in seconds.
//
// RateLimit-Policy is on all answers, as it never changes. The other figures are on
// refusals, where they come with the decision. A request that passes brings none
// along, and neither does a refusal by several limits, or of a cost above 1 by a quota or a
// rolling limit; [Config.EveryAnswer] asks for them with another round trip.
//
// # Clients are hostile
//
// Each key has a full bucket when it is first seen, and its state stays in Redis
// for a minute and a half at least. So a key must be something that a client can
// not make up: an account that has logged in, an address that your own proxy
// vouches for; not a header as it came. An empty key is refused with 400, so that
// nobody gets another limit by leaving something out. Keys of more than 512 bytes
// are hashed. Shorter ones stand in the names of Redis's keys as they are: hash
// those that are secrets.
//
// The limit counts requests that reached the middleware: put it behind what
// authenticates, and before what is dear. Where several are nested, a request that
// an inner one refuses has used a permit of the outer ones; a Joint takes the permits of all
// limits or of none.
//
// # When Redis is away
//
// First the limiter's own policy decides (reserve.Outage), and under the default
// requests go on at this process's share of the rate. Where the limiter has no
// answer, or none within a second (more than MaxWait), the request gets 503, or
// passes if [Config.PassOnError] says so.
package serve
