// Package adaptive finds the rate of an API that does not tell its limit. The rate rises
// slowly while all goes well, and falls fast when a call is refused, for the whole fleet
// together.
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
// Where the API's answers tell its limit, transport.Config.Learn is better: it need not
// run into the limit to find it.
//
// # The rate
//
// It is the limit that [reserve.Limiter.SetLimit] sets for all, with the burst of the
// limiter. The limiter must be paced: [New] refuses limits of other kinds. Where calls need
// several limits, such as requests and tokens, make a [Rate] of the one that moves.
//
// It begins as what is in force, the limiter's own limit or one that somebody
// has set, and from then on:
//
//	down   An incident multiplies it with Config.Decrease.
//	up     After Config.Every without an incident, Config.Increase is added, if at least
//	       half of what the rate allowed in that time was used. A rate that nobody needs
//	       would rise to where nobody knows whether the API bears it; so does one of
//	       calls that are slowed down by something else.
//
// It stays between Config.Floor and Config.Ceiling. If somebody sets the limit by hand
// meanwhile, also outside of these, the rate goes on from there, at the latest after the
// end of a round.
//
// What was found counts for an hour. It is set anew when a quarter of that is over and
// calls are still reported. So 45 to 60 minutes after the last report the limiter's own
// limit is in force again.
//
// # One decrease per incident
//
// A refusal tells of the rate at which its call was sent. All calls that are under way
// when the API begins to refuse may be refused, in every process, and they tell it once:
//
//	in force    The rate is the limiter's. A refusal of a call that was sent more than
//	            Config.Settle after the last decrease came into force is an incident. A
//	            script decides on it, so of all processes that report at once, one is
//	            first.
//	decided     The lower rate, and the number of the decision, are written down. Whoever
//	            was first sets the limit. All refusals belong to this incident now.
//	in force    That process says so. From this moment, plus Settle, calls count that are
//	            sent at the lower rate.
//
// If the process dies between the two, the decision stands, and after a second the next
// report carries it out: to set the same limit twice changes nothing. A process that was
// held up may overwrite a later decision. It hears of that when it says that it is done,
// and sets the later one.
//
// The same state in Redis counts the permits of a round. Each process reports them at most
// four times per Config.Every. The first report after the end of a round decides for all.
//
// # Time
//
// Redis's clock is the only one. The process works out from the last reply that it had
// when, on that clock, a call was sent. It may take that moment for earlier than it was, and
// never for later. So a slow way to Redis, or a report that arrives late, makes an old call
// no new incident. If Redis's clock steps, a report may be ignored, or an incident may count
// twice. The next reply puts it right.
//
// # When Redis is away
//
// [Rate.Report] does no I/O: one goroutine per key tells Redis. Its failures are logged, at
// most once a second. A refusal is told again a second later, with the next report. The rate
// stays as it is meanwhile.
//
// # In Redis
//
// There is one more key per limit, beside those of package lua and with the same hash tag.
// For prefix p, name n and key k (left out with its colon for the limit as a whole):
//
//	p:{n}:adapt:k  hash  see rate.lua, which names its fields
//
// The key of a limiter of group g begins with p:{g}/n: and not with p:{n}:. Commands: EVALSHA,
// EVAL, TIME, HMGET, HSET and PEXPIRE, which the rules of lua.ACL allow. Before each report
// the limiter is asked for the rate that is in force ([reserve.Limiter.State]).
package adaptive
