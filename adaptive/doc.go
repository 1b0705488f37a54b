// Package adaptive finds the rate of an API that does not publish its limit, for the whole fleet
// together. The rate rises slowly while no call is refused, and falls fast when one is: additive
// increase, multiplicative decrease.
//
//	rate, err := adaptive.New(client, limiter, adaptive.Config{
//		Floor:   reserve.PerSecond(1),
//		Ceiling: reserve.PerSecond(50),
//	})
//	if err != nil {
//		return err
//	}
//	defer rate.Close()
//	...
//	if err := limiter.Wait(ctx); err != nil {
//		return err
//	}
//	sent := time.Now()
//	response, err := call()
//	if err == nil {
//		rate.Report(sent, response.StatusCode == http.StatusTooManyRequests)
//	}
//
// If the API's responses state its limit, use transport.Config.Learn instead: it finds the
// limit without exceeding it.
//
// # The rate
//
// The rate is an override: [reserve.Limiter.SetLimit] sets it for all processes, with the
// burst of the limiter. The limiter must be paced: [New] refuses limits of other kinds. If
// calls need several limits, such as requests and tokens, make a [Rate] of the limit that
// adapts.
//
// The rate begins as the limit in force: the limiter's own limit, or an override. From then
// on it changes:
//
//	down   An incident multiplies it by Config.Decrease.
//	up     After Config.Every without an incident, Config.Increase is added, if calls used
//	       at least half of what the rate allowed in that time. Less use does not show
//	       that the API accepts the rate.
//
// It stays between Config.Floor and Config.Ceiling. If somebody else sets the limit, also to
// a rate outside of these, the rate continues from there, at the latest after the end of the
// current round.
//
// A rate stays in force for an hour. It is renewed when a quarter of the hour has passed and
// calls are still reported. So the limiter's own limit is in force again 45 to 60 minutes
// after the last report.
//
// # One decrease per incident
//
// When the API begins to refuse, it may refuse all calls that are in flight, in every
// process. All of these refusals are one incident, because their calls were sent at the same
// rate. An incident has three steps:
//
//  1. A call is refused that was sent more than Config.Settle after the last decrease came
//     into force. A script in Redis makes this an incident, so only one of the processes that
//     report at the same time starts it.
//  2. The script stores the lower rate and the number of the decision. The process that
//     reported first sets the limit. All refusals belong to this incident now.
//  3. That process reports that the limit is set. Calls that are sent later than Settle after
//     this moment can cause another incident.
//
// If the process dies between steps 2 and 3, the decision stands, and after a second the next
// report carries it out. It is safe to set the same limit twice. A process that was suspended
// may overwrite a later decision. Then the reply to step 3 says so, and the process sets the
// later rate.
//
// The same state in Redis counts the permits of a round. Each process reports them at most
// four times per Config.Every. The first report after the end of a round decides for all.
//
// # Time
//
// Only Redis's clock counts. From its last reply, a process computes when a call was sent on
// that clock. The result may be too early and is never too late. So a slow network or a late
// report cannot turn an old call into a new incident. If Redis's clock steps, a report may be
// ignored, or an incident may count twice. The next reply corrects it.
//
// # Without Redis
//
// [Rate.Report] does no I/O: one goroutine per key reports to Redis. Failures are logged, at
// most once a second. A refusal is reported again a second later, with the next report. The
// rate stays unchanged meanwhile.
//
// # In Redis
//
// There is one more key per limit, beside those of package lua and with the same hash tag.
// For prefix p, name n and key k (left out with its colon for the limit as a whole):
//
//	p:{n}:adapt:k  hash  rate.lua describes its fields
//
// The key of a limiter of group g begins with p:{g}/n: and not with p:{n}:. Commands: EVALSHA,
// EVAL, TIME, HMGET, HSET and PEXPIRE, which the rules of lua.ACL allow. Each report first
// reads the rate that is in force ([reserve.Limiter.State]).
package adaptive
