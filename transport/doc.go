// Package transport makes every HTTP request of a client take its turn, and
// heeds what the provider's answers say about its limits. It is an
// [http.RoundTripper], so it works under any client that takes an http.Client,
// the SDKs of providers included.
//
//	paced, err := transport.New(transport.Config{Limiter: limiter})
//	...
//	client := &http.Client{Transport: paced}
//
// # What takes a turn
//
// Each attempt does: the first, each retry, each redirect that the client
// follows, and what net/http sends again by itself when a connection turns out
// to be dead. A turn is waited for under the request's context. So its deadline,
// and a Timeout of the client, count the waiting, too, and calls fail at once whose turn
// would come later. To bound how long the API may take to answer, use the
// ResponseHeaderTimeout of the http.Transport below.
//
// The limits may be of any kind, and several at once ([reserve.Joint]), such as requests
// and tokens. Where a cost is an estimate, [Config.Used] says what the answer tells of it.
//
// Requests of tenants that share a limit have fair shares of it if [Config.Choose] returns
// the limit for each of them, with [reserve.Limiter.Flow].
//
// # What an answer says
//
// Package headers reads it. An answer that refuses the call, or that says that
// nothing is left, pauses the limit until the moment that it names, for the
// whole fleet: of several limits the one that is used up, if [Turn.Windows] tells which that
// is, and else all. Where it names no moment, nothing is
// paused: no time is ever made up. With [Config.Learn], a paced limit follows what
// the provider tells: down at once, up slowly; see there. Where it tells nothing,
// [Config.Adapt] finds the limit by what is refused.
//
// # What is sent again
//
// Nothing, unless [Retry] says so; then what was refused, if the request may be
// repeated and its body is there again. Clients that retry by themselves, as SDKs
// do, need no help: each of their attempts comes here again.
package transport
