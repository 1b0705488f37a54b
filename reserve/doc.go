// Package reserve is a distributed rate limiter that queues, on Redis. All processes of a fleet
// share one queue. A call blocks until the API's limit allows it. It fails if its context
// ends, its deadline cannot be met, its cost exceeds the burst, the queue is full, the limit is
// stopped, or the limiter is closed. The outage policy may fail it, too, and so do faults of the
// setup: the errors of this package say which.
//
//	limiter, err := reserve.New(client, reserve.Config{
//		Name:  "maps-api",
//		Limit: reserve.PerSecond(50),
//	})
//	...
//	if err := limiter.Wait(ctx); err != nil {
//		return err
//	}
//	// call the API now
//
// # What is guaranteed
//
// While Redis answers and keeps its data, all processes together are granted no more permits than the
// limit allows. A strict provider with the same limit accepts all calls if the network delays each by
// the same time. Real networks have jitter, so set a smaller burst than the provider's. A limit of
// 100/s with burst 1, in front of a provider that allows bursts of 10, tolerates 90 ms of jitter.
//
// # Terms
//
// A limit is a queue of waiting calls in front of a rate meter. The meter knows how many permits
// the API still allows. A waiting call has a place in the queue and owns no permits. Its forecast
// is the moment at which its turn is expected. A turn is the permits granted to a call, and the
// moment from which the call may be made. Redis grants a turn at most half a second early, and only
// a pause or a hard stop revokes it. docs/glossary.md has all terms.
//
// So a call that gives up, or whose process dies, never held a permit while it waited. A pause, or
// a change of the limit, moves all waiting calls.
//
// A booking is a saved position in the queue, under an ID, for a call that is made later, perhaps
// by another process. When the call comes, it goes ahead of all calls that arrived after its
// booking. See [Joint.Book] and [Joint.Ask].
//
// In one process, calls of the same cost get their turns first come, first served. Across
// processes, that holds for calls of processes that are awake. If a process was suspended past the
// end of a turn, the turn has expired, and the call asks for a new one.
//
// # Concurrency limits
//
// A limit of [Concurrent] has slots. A call holds a slot from its turn until it releases the slot,
// so use [Limiter.Acquire]. If a process sends no heartbeat for 3 s, other calls get its slots.
//
// # Fair shares, and urgent calls
//
// A [Limiter.Flow] is one of the tenants, accounts or hosts that share a limit. Each flow with
// waiting calls gets its turns by its [Limiter.Weight], however many calls of other flows wait.
// Other flows get what a flow does not use.
//
// A flow with waiting calls is behind its share by a bounded number of permits: the sum of
//
//   - its largest call
//   - the permits of half a second, because turns are granted that early
//   - its share of the largest call of each flow
//
// A [Limiter.Urgent] call goes ahead of all others, within the part of the limit for urgent calls.
//
// # The one clock
//
// Only Redis's clock counts. Its replies contain durations, which a process measures on its
// monotonic clock. Wall clocks of workers do not matter.
//
// # When the API asks for a pause
//
// During a [Limiter.Pause] no call gets its turn, and turns that are due before the end of the
// pause are revoked. A process with waiting calls holds one more connection, on which Redis
// publishes pauses and changes of limits: see [Limiter.SetLimit].
//
// # Several limits in one call
//
// A call of a [Joint] needs permits of several limits, of any [Kind]. One step grants it the
// permits of all limits or of none. The call waits at the limit that holds it back most, and takes
// nothing from the others until then. [Reservation.Settle] corrects the cost of a call once it is
// known.
//
// # When Redis is unreachable
//
// Granted turns are used. Requests of all other calls are retried, until some failures in a row
// open a circuit breaker. Then a [Policy] decides: calls continue at this process's part of the
// rate, wait, fail, or pass. See [Outage]. If Redis lost its data, or returned with older data,
// each process sends what it remembers with its next request, and waiting calls keep their order.
//
// Package lua documents the scripts and the keys, so that workers in other languages can use the
// same queue.
package reserve
