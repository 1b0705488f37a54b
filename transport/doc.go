// Package transport makes every HTTP request of a client take its turn, and
// heeds what the provider's answers say about its limits. It is an
// [http.RoundTripper], so it works under any client that takes an http.Client,
// the SDKs of providers included.
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
//	response, err := client.Get(url) // when it has its turn
//
// # What takes a turn
//
// Each attempt does: the first, each retry, each redirect that the client
// follows, and what net/http sends again by itself when a connection turns out
// to be dead. A turn is waited for under the request's context. So its deadline,
// and a Timeout of the client, count the waiting, too. A call whose turn would
// come later fails at once. To bound how long the API may take to answer, use the
// ResponseHeaderTimeout of the http.Transport below.
//
// The limits may be of any kind, and several at once ([reserve.Joint]), such as requests
// and tokens. Where a cost is an estimate, [Config.Used] says what the answer tells of it.
// A request holds its slots until the body of its answer is closed.
//
// Requests of tenants that share a limit have fair shares of it if [Config.Choose] returns
// the limit for each of them, with [reserve.Limiter.Flow].
//
// # What an answer says
//
// Package headers reads it. An answer that refuses the call, or that says that
// nothing is left, pauses the limit for the whole fleet, until the moment that the
// answer names. Of several limits only the one that is used up is paused, if
// [Turn.Windows] tells which that is; else all are. An answer from a cache pauses nothing.
//
// A refusal that names no moment pauses the limit for a second, the next one for two, and so on
// up to [Config.MaxPause], until a call succeeds. Where [Config.Adapt] hears of it, the rate
// falls instead. An answer that is no refusal and names no moment pauses nothing.
//
// With [Config.Learn], a paced limit follows what the provider tells: down at once,
// up slowly. Where the provider tells nothing, [Config.Adapt] finds the limit by what
// is refused.
//
// # What is sent again
//
// Nothing, unless [Retry] says so. Then it is what was refused, if the request may be
// repeated and its body can be had again. A Retry-After counts with every status. Clients that retry by themselves, as SDKs
// do, need no help: each of their attempts comes here again.
package transport
