// Package transport keeps the HTTP requests of a client within an API's rate limit. It reads
// the rate-limit headers of responses, and pauses the limit if they say so. It is an
// [http.RoundTripper], so it works under any client that takes an http.Client, also under the
// SDKs of providers.
//
//	limiter, err := reserve.New(redisClient, reserve.Config{Name: "api", Limit: reserve.PerSecond(50)})
//	if err != nil {
//		return err
//	}
//	defer limiter.Close()
//	paced, err := transport.New(transport.Config{Limiter: limiter})
//	if err != nil {
//		return err
//	}
//	client := &http.Client{Transport: paced}
//	response, err := client.Get(url) // waits for its turn
//
// # What takes a turn
//
// Each attempt takes a turn: the first, each retry, each redirect that the client follows,
// and each request that net/http repeats by itself when a connection is closed. A request
// waits for its turn under its own context. So its deadline, and a Timeout of the client,
// include the wait. If the turn would come later, the call fails at once. To bound how long
// the API may take to respond, use the ResponseHeaderTimeout of the http.Transport below.
//
// The limits may be of any kind, and several at once ([reserve.Joint]), such as requests
// and tokens. If a cost is an estimate, [Config.Tokens] takes the real cost from the body of the
// response, while the caller reads it, also from streams. [Config.Used] reads the response before
// the caller gets it. A request holds its slots until the body of its response ends or is closed.
//
// Tenants that share a limit get fair shares of it if [Config.Choose] returns the limit
// with the [reserve.Limiter.Flow] of the tenant.
//
// # Pauses
//
// Package headers reads rate-limit headers. A response that refuses the call, or that says
// that nothing is left, pauses the limit for the whole fleet, until the moment that the
// response names. With several limits, only the limit that is used up is paused, if
// [Need.Windows] names it; otherwise all are. A response from a cache pauses nothing.
//
// A refusal that names no moment pauses the limit for a second, the next such refusal for
// two, and so on up to [Config.MaxPause], until a call succeeds. With [Config.Adapt], the
// rate falls instead. Any other response that names no moment pauses nothing.
//
// With [Config.API], the body of a refusal counts, too. It may say which limit is used up and for how
// long, that the account has no credit, or that the request cannot succeed at all.
//
// With [Config.Learn], a paced limit follows the limit that responses state: down at once, and up to
// the Limiter's own limit within a minute. If they state none, [Config.Adapt] finds the limit from refusals.
//
// # Retries
//
// By default nothing is retried. [Config.Retry] retries refused requests that may be repeated and
// whose body is available again. It waits for a Retry-After of any status. Clients that retry by
// themselves, such as SDKs, need no setting: each of their attempts takes a turn.
package transport
