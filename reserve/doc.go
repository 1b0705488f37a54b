// Package reserve makes a fleet of workers take turns at a rate-limited API. It
// is a blocking, queued, distributed rate limiter on Redis: a call joins a queue, and
// waits until its turn comes; nothing is rejected.
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
// Calls leave as a token bucket of the limit's rate and burst allows, over all processes
// together. A strict provider with the same limit accepts all of them if the network delays
// each call by the same time. Real networks jitter, so set a smaller burst than the
// provider's. A limit of 100/s with burst 1, before a provider that allows a burst of 10,
// leaves room for 90 ms of jitter.
//
// # The words
//
// A limit is a meter, which knows how many permits the API would still allow, and a queue
// of the calls that wait. A call that waits has a place in the queue and owns no permits.
// Its forecast is the moment of its turn, as far as is known now. A turn is permits that
// were spent, and the moment at which they are due. It is given at most half a second
// ahead, and is final: only a pause, or a limit that lets less through, takes it back.
//
// So a call that gives up, or whose process dies, has held nothing. A pause or another
// limit moves all calls that wait.
//
// A booking is a place in the order that is kept, under an ID, for a call that is made
// later, perhaps by another process. When the call comes, it is before those that came
// after it. See [Joint.Join] and [Joint.Ask].
//
// In one process calls of the same cost have their turns first come, first served. Between
// processes, those that came first are first while they are awake. A turn that was slept
// through, because the process was suspended, is not used: the call asks for another one.
//
// # So many calls at once
//
// A limit of [Concurrent] has slots. A call holds one from its turn until it is released,
// so it is made with [Limiter.Acquire]. Slots of a process that is silent for 3 s are for
// others.
//
// # Fair shares, and calls that cannot wait
//
// A [Limiter.Flow] is a tenant, an account or a host of those that share a limit. Where calls
// wait, each flow has its turns by its [Limiter.Weight], however many calls of others wait.
// What it does not use is for the others.
//
// A flow with waiting calls is behind its share by a bounded number of permits: its largest
// call, what the limit lets through in half a second (turns are given that far ahead), and
// its share of the largest call of each flow.
//
// A call that is [Limiter.Urgent] goes before all others, as far as its part of the limit
// goes.
//
// # The one clock
//
// Only Redis's clock counts. Its replies are durations, which a process measures on its
// monotonic clock. Wall clocks of workers do not matter.
//
// # When the API asks for a pause
//
// After [Limiter.Pause] nobody has a turn for a time, not even a call that was given one which
// is not due yet. A process in which calls wait holds one more connection, on which it hears
// of that, and of another limit: see [Limiter.SetLimit].
//
// # Several limits in one turn
//
// A call of a [Joint] needs permits of several limits, of any [Kind]: one step gives it the
// permits of all, or of none. It waits at the limit that holds it back most, and takes
// nothing from the others until then. [Reservation.Settle] corrects the cost of a call once
// it is known.
//
// # When Redis is away
//
// Turns that were given are used. All other calls are asked again until some failures in a
// row open a circuit breaker. Then a [Policy] decides: the calls go on at this process's
// share of the rate, wait, fail, or go through. See [Outage]. If Redis lost its data, or
// went back to an older copy of it, the processes bring what they remember, and calls that
// wait keep their order.
//
// The scripts and the keys are documented in package lua, so that workers in other
// languages can join the same queue.
package reserve
